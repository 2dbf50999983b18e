package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"testing"
)

// forge changes Helm's record of a release, as whoever may write Secrets in its namespace can.
func forge(t *testing.T, c caller, ns, record string, change func(obj)) {
	t.Helper()
	path := "/api/v1/namespaces/" + ns + "/secrets/" + record
	secret := decode[obj](t, c.must(t, http.StatusOK, http.MethodGet, path, nil).body)
	data := secret["data"].(obj)
	packed, err := base64.StdEncoding.DecodeString(data["release"].(string))
	if err == nil {
		packed, err = base64.StdEncoding.DecodeString(string(packed))
	}
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	says := decode[obj](t, string(text))
	change(says)
	if text, err = json.Marshal(says); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(text)
	_ = w.Close()
	data["release"] = base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString(out.Bytes())))
	c.must(t, http.StatusOK, http.MethodPut, path, secret)
}

// X33: Helm's records are Secrets of the namespace. Whoever may write those gains nothing by a record of a release that an administrator has
// installed: no hook of it is run and no revision gone back to with the administrator's rights.
func TestAForgedRecordUsesNobodysRights(t *testing.T) {
	a, ws := admin(t), newManagedWorkspace(t, "admin")
	ns, app, bobs := unique("store"), unique("redis"), unique("bob")
	newProject(t, ns, ws, nil)
	bob := newUser(t, bobs)
	role(t, ns, bobs, rule{[]string{"application.kubesphere.io"}, []string{"*"}, []string{"*"}}, rule{[]string{""}, []string{"secrets"}, []string{"*"}})
	bind(t, ns, bobs, obj{"kind": "User", "name": bobs})
	eventually(t, "bob may write Secrets at kube-apiserver", bob.accepts(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/"+ns+"/secrets?dryRun=All",
		obj{"apiVersion": "v1", "kind": "Secret", "metadata": obj{"name": "try"}}))
	v1 := storeVersion(t, ws, app, "1.0.0", "helm", redisChart(t, "1.0.0", ""))
	broken := storeVersion(t, ws, app, "2.0.0", "helm", redisChart(t, "2.0.0", "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n"))
	routes := storeAPI + "/namespaces/" + ns + "/applications"
	install := func(t *testing.T) (name string) {
		name = unique("cache")
		a.must(t, http.StatusOK, http.MethodPost, routes, appRelease(name, ws, ns, app, v1, nil))
		eventually(t, "it is active", a.has(routes+"/"+name, `"state":"active"`))
		t.Cleanup(func() {
			_, _ = a.do(context.Background(), http.MethodDelete, storeKube+"/applicationreleases/"+name, nil)
		})
		return name
	}
	binding := func(kind, name string) (path, manifest string) {
		path, in := "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/"+name, ""
		if kind == "RoleBinding" {
			path, in = "/apis/rbac.authorization.k8s.io/v1/namespaces/"+ns+"/rolebindings/"+name, ", namespace: "+ns
		}
		return path, "apiVersion: rbac.authorization.k8s.io/v1\nkind: " + kind + "\nmetadata: {name: " + name + in + "}\n" +
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\n" +
			"subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: " + bobs + "}]\n"
	}
	step(t, "a removal runs no hook of it", func(t *testing.T) {
		name := install(t)
		path, manifest := binding("ClusterRoleBinding", name)
		forge(t, bob, ns, "sh.helm.release.v1."+name+".v1", func(r obj) {
			r["hooks"] = []any{obj{"name": name, "kind": "ClusterRoleBinding", "path": "redis/templates/all.yaml", "manifest": manifest,
				"events": []any{"pre-delete", "post-delete"}}}
		})
		bob.must(t, http.StatusOK, http.MethodDelete, routes+"/"+name, nil)
		eventually(t, "the release is gone", a.accepts(http.StatusNotFound, http.MethodGet, routes+"/"+name, nil))
		a.must(t, http.StatusNotFound, http.MethodGet, path, nil)
		a.must(t, http.StatusNotFound, http.MethodGet, "/api/v1/namespaces/"+ns+"/configmaps/redis-web", nil)
	})
	step(t, "an upgrade deletes nothing that is not the release's", func(t *testing.T) {
		name, maps := install(t), "/api/v1/namespaces/"+ns+"/configmaps"
		a.create(t, maps, obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": name}})
		forge(t, bob, ns, "sh.helm.release.v1."+name+".v1", func(r obj) {
			r["manifest"] = r["manifest"].(string) + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
		})
		a.must(t, http.StatusOK, http.MethodPost, routes+"/"+name, appRelease(name, ws, ns, app, v1, obj{"greeting": "bye"}))
		eventually(t, "it is upgraded", a.has(maps+"/redis-web", `"value":"bye 1.0.0"`))
		eventually(t, "it is active", a.has(routes+"/"+name, `"state":"active"`))
		a.must(t, http.StatusOK, http.MethodGet, maps+"/"+name, nil)
		a.must(t, http.StatusOK, http.MethodDelete, routes+"/"+name, nil)
		eventually(t, "the release is gone", a.accepts(http.StatusNotFound, http.MethodGet, routes+"/"+name, nil))
	})
	step(t, "a failed upgrade does not go back to it", func(t *testing.T) {
		name := install(t)
		path, manifest := binding("RoleBinding", name)
		forge(t, bob, ns, "sh.helm.release.v1."+name+".v1", func(r obj) { r["manifest"] = r["manifest"].(string) + "---\n" + manifest })
		a.must(t, http.StatusOK, http.MethodPost, routes+"/"+name, appRelease(name, ws, ns, app, broken, nil))
		eventually(t, "the upgrade has failed", a.has(routes+"/"+name, `"state":"failed"`))
		a.must(t, http.StatusNotFound, http.MethodGet, path, nil)
		// Nor does it become the platform's own by that: its removal lends rights for what was noted alone.
		bob.must(t, http.StatusOK, http.MethodDelete, routes+"/"+name, nil)
		eventually(t, "the release is gone", a.accepts(http.StatusNotFound, http.MethodGet, routes+"/"+name, nil))
	})
}

// X28, X30, X33: the right to everything of the store in a workspace is used through the routes of the store. Those for any kind, and kube-apiserver's own,
// know nothing of reviews, and write none of its objects by it.
func TestTheRightToTheStoreIsNoneToItsObjects(t *testing.T) {
	a, ws := admin(t), newManagedWorkspace(t, "admin")
	app, name, carols := unique("redis"), unique("apps"), unique("carol")
	carol := newUser(t, carols)
	a.create(t, iamAPI+"/workspaceroles", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceRole",
		"metadata": obj{"name": name, "labels": obj{workspaceLabel: ws}}, "rules": []any{
			rule{[]string{"application.kubesphere.io"}, []string{"*"}, []string{"*"}}, rule{[]string{"iam.kubesphere.io"}, []string{"groups"}, []string{"*"}},
			rule{[]string{"tenant.kubesphere.io"}, []string{"workspaces"}, []string{"get", "list"}}}})
	a.create(t, iamAPI+"/workspacerolebindings", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceRoleBinding",
		"metadata": obj{"name": name, "labels": obj{workspaceLabel: ws}},
		"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": "WorkspaceRole", "name": name},
		"subjects": []any{obj{"kind": "User", "name": carols, "apiGroup": "rbac.authorization.k8s.io"}}})
	version := storeVersion(t, ws, app, "1.0.0", "helm", redisChart(t, "1.0.0", ""))
	eventually(t, "kube-apiserver knows the role", carol.accepts(http.StatusOK, http.MethodPost, iamRoutes+"/workspaces/"+ws+"/groups?dryRun=All",
		obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "Group", "metadata": obj{"generateName": "try-", "labels": obj{workspaceLabel: ws}}}))
	eventually(t, "the role counts in the store", carol.has(storeAPI+"/workspaces/"+ws+"/apps/"+app+"/versions/"+version, `"state":"active"`))
	before := stored(t, storeKube+"/applicationversions/"+version)
	for _, kind := range []struct{ plural, name, kind string }{
		{"applicationversions", version, "ApplicationVersion"}, {"applications", app, "Application"}, {"applicationreleases", unique("none"), "ApplicationRelease"},
		{"repos", unique("none"), "Repo"}, {"categories", "kubesphere-app-uncategorized", "Category"},
	} {
		body := func(name string) obj {
			return obj{"apiVersion": "application.kubesphere.io/v2", "kind": kind.kind, "metadata": obj{"name": name, "labels": obj{workspaceLabel: ws},
				"annotations": obj{"application.kubesphere.io/req-user": carols}}, "spec": obj{"url": "https://charts.example.com", "digest": "00"},
				"status": obj{"state": "active"}}
		}
		for _, at := range []string{storeAPI + "/workspaces/" + ws + "/" + kind.plural, storeAPI + "/" + kind.plural, storeKube + "/" + kind.plural} {
			for _, c := range []struct {
				method, path string
				body         any
				headers      []string
			}{
				{http.MethodPut, at + "/" + kind.name, body(kind.name), nil},
				{http.MethodPatch, at + "/" + kind.name, obj{"spec": obj{"digest": "00"}}, []string{asMerge}},
				{http.MethodPatch, at + "/" + kind.name + "/status", obj{"status": obj{"state": "active"}}, []string{asMerge}},
				{http.MethodDelete, at + "/" + kind.name, nil, nil},
				{http.MethodPost, at, body(unique("new")), nil},
			} {
				// The store has routes of its own for some of these, which say what they want.
				r, err := carol.do(t.Context(), c.method, c.path, c.body, c.headers...)
				if err != nil || r.code < 400 || r.code >= 500 && r.code != http.StatusBadGateway {
					t.Errorf("%s %s: %d %s %v", c.method, c.path, r.code, clip(r.body), err)
				}
			}
		}
	}
	if after := stored(t, storeKube+"/applicationversions/"+version); after != before {
		t.Errorf("the version was\n%s\nand is\n%s", clip(before), clip(after))
	}
}
