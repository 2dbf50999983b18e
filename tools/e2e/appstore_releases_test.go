package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"kapis.dev/ks-apiserver/pkg/chart/charttest"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// storeVersion makes a version of an application of a workspace, with its package, as somebody has who has uploaded and reviewed it.
func storeVersion(t *testing.T, ws, app, version, kind string, pack []byte, resources ...obj) string {
	t.Helper()
	a, name := admin(t), app+"-"+version
	labels := obj{workspaceLabel: ws, "application.kubesphere.io/app-id": app, "application.kubesphere.io/repo-name": "upload"}
	if r, err := a.do(t.Context(), http.MethodGet, storeKube+"/applications/"+app, nil); err != nil || r.code != http.StatusOK {
		a.create(t, storeKube+"/applications", obj{"apiVersion": "application.kubesphere.io/v2", "kind": "Application",
			"metadata": obj{"name": app, "labels": obj{workspaceLabel: ws}}, "spec": obj{"appType": kind, "resources": resources}})
	}
	a.create(t, storeFile, obj{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": obj{"name": name}, "binaryData": obj{"BinaryKey": base64.StdEncoding.EncodeToString(pack)}})
	a.create(t, storeKube+"/applicationversions", obj{"apiVersion": "application.kubesphere.io/v2", "kind": "ApplicationVersion",
		"metadata": obj{"name": name, "labels": labels}, "spec": obj{"versionName": version, "appType": kind}})
	a.must(t, http.StatusOK, http.MethodPatch, storeKube+"/applicationversions/"+name+"/status", obj{"status": obj{"state": "active"}}, asMerge)
	eventually(t, "the version is in the store", a.has(storeAPI+"/workspaces/"+ws+"/apps/"+app+"/versions/"+name, `"state":"active"`))
	// Which its controller puts on, and nothing more: from now on it stays as it is.
	eventually(t, "it has its finalizer", a.has(storeKube+"/applicationversions/"+name, `"storeCleanFinalizer.application.kubesphere.io"`))
	return name
}

// appRelease is what a page sends to install a version.
func appRelease(name, ws, ns, app, version string, values any) obj {
	return obj{"apiVersion": "application.kubesphere.io/v2", "kind": "ApplicationRelease", "metadata": obj{"name": name, "labels": obj{
		workspaceLabel: ws, "kubesphere.io/namespace": ns, "kubesphere.io/cluster": "host", "application.kubesphere.io/app-id": app,
	}}, "spec": obj{"appID": app, "appVersionID": version, "values": values}}
}

func redisChart(t *testing.T, version, more string) []byte {
	t.Helper()
	return charttest.Pack(t, "redis", map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: redis, version: " + version + "}",
		"values.yaml": "greeting: hello\nmany: 0\n",
		"templates/all.yaml": configMapOf("redis-web", "{{ .Values.greeting }} "+version) + `
{{- range $i := until (int .Values.many) }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: redis-{{ $i }}}
{{- end }}
` + more,
	})
}

// installer is a member of a project who may install there, and write ConfigMaps.
func installerOf(t *testing.T, name, ns string) (c caller, binding string) {
	t.Helper()
	c = newUser(t, name)
	role(t, ns, name, rule{[]string{"application.kubesphere.io"}, []string{"*"}, []string{"*"}}, rule{[]string{""}, []string{"configmaps"}, []string{"*"}})
	binding = bind(t, ns, name, obj{"kind": "User", "name": name})
	eventually(t, name+" may write at kube-apiserver", c.accepts(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/"+ns+"/configmaps?dryRun=All",
		obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": "try"}}))
	return c, binding
}

// X28, X29, X33, X35, X41: a member of a project installs, upgrades and removes what he may, and nothing else; his release is Helm's, too, and goes without
// his rights.
func TestAReleaseIsWhatItsAuthorMay(t *testing.T) {
	a, ws, other := admin(t), newManagedWorkspace(t, "admin"), newManagedWorkspace(t, "admin")
	ns, theirs, app, name := unique("store"), unique("store"), unique("redis"), unique("cache")
	newProject(t, ns, ws, nil)
	newProject(t, theirs, other, nil)
	bobs := unique("bob")
	bob, binding := installerOf(t, bobs, ns)
	eve, _ := installerOf(t, unique("eve"), theirs)
	v1, v2 := storeVersion(t, ws, app, "1.0.0", "helm", redisChart(t, "1.0.0", "")), storeVersion(t, ws, app, "1.1.0", "helm", redisChart(t, "1.1.0", ""))
	cluster := storeVersion(t, ws, app, "2.0.0", "helm", redisChart(t, "2.0.0",
		"---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: "+name+"}\nrules: []\n"))
	routes, web := storeAPI+"/namespaces/"+ns+"/applications", "/api/v1/namespaces/"+ns+"/configmaps/redis-web"
	t.Cleanup(func() {
		_, _ = a.do(context.Background(), http.MethodDelete, storeKube+"/applicationreleases/"+name, nil)
	})

	step(t, "what does not agree is refused", func(t *testing.T) {
		for _, c := range []struct {
			code int
			body obj
		}{
			{http.StatusBadRequest, appRelease(name, ws, theirs, app, v1, nil)},
			{http.StatusUnprocessableEntity, appRelease(name, other, ns, app, v1, nil)},
			{http.StatusUnprocessableEntity, appRelease(name, ws, ns, app, "no-such-1.0.0", nil)},
			{http.StatusBadRequest, appRelease(strings.Repeat("x", 54), ws, ns, app, v1, nil)},
		} {
			bob.must(t, c.code, http.MethodPost, routes, c.body)
		}
		eve.must(t, http.StatusForbidden, http.MethodPost, routes, appRelease(name, ws, ns, app, v1, nil))
		if r := eve.must(t, http.StatusUnprocessableEntity, http.MethodPost, storeAPI+"/namespaces/"+theirs+"/applications",
			appRelease(name, other, theirs, app, v1, nil)); !strings.Contains(r.body, "has no version") {
			t.Error(clip(r.body))
		}
		// Nobody says whose rights are used, by whatever door.
		forged := appRelease(name, ws, ns, app, v1, nil)
		forged["metadata"].(obj)["annotations"] = obj{"application.kubesphere.io/req-user": bobs}
		a.must(t, http.StatusForbidden, http.MethodPost, storeKube+"/applicationreleases", forged)
	})
	step(t, "he installs", func(t *testing.T) {
		bob.must(t, http.StatusOK, http.MethodPost, routes, appRelease(name, ws, ns, app, v1, base64.StdEncoding.EncodeToString([]byte("greeting: hi\n"))))
		eventually(t, "it is active, with its objects", bob.has(routes+"/"+name, `"state":"active"`, `"application.kubesphere.io/req-user":"`+bobs,
			`"kubesphere.io/creator":"`+bobs, `"name":"redis-web"`))
		a.answers(t, web, `"value":"hi 1.0.0"`, `"application.kubesphere.io/app-release-name":"`+name+`"`)
		bob.answers(t, routes+"?conditions=status=active&labelSelector=kubesphere.io/cluster=host", `"totalItems":1`, name)
	})
	step(t, "nobody of another workspace sees or changes it", func(t *testing.T) {
		through := storeAPI + "/namespaces/" + theirs + "/applications/" + name
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			eve.must(t, http.StatusNotFound, method, through, nil)
			eve.must(t, http.StatusForbidden, method, routes+"/"+name, nil)
			eve.must(t, http.StatusForbidden, method, storeAPI+"/applications/"+name, nil)
		}
		eve.must(t, http.StatusNotFound, http.MethodPost, through, appRelease(name, other, theirs, app, v1, nil))
		eve.answers(t, storeAPI+"/namespaces/"+theirs+"/applications", `"totalItems":0`)
	})
	step(t, "Helm's CLI has it", func(t *testing.T) {
		r := &helmRelease{t: t, namespace: ns}
		if out := r.cli("list"); !strings.Contains(out, name) || !strings.Contains(out, "deployed") {
			t.Error(out)
		}
		if out := r.cli("get", "manifest", name); !strings.Contains(out, "redis-web") {
			t.Error(out)
		}
	})
	step(t, "he upgrades", func(t *testing.T) {
		bob.must(t, http.StatusOK, http.MethodPost, routes+"/"+name, appRelease(name, ws, ns, app, v2, obj{"greeting": "good"}))
		eventually(t, "it is upgraded", a.has(web, `"value":"good 1.1.0"`))
		bob.must(t, http.StatusOK, http.MethodPatch, routes+"/"+name, obj{"spec": obj{"values": obj{"greeting": "bye"}}}, asMerge)
		eventually(t, "what he names is changed", a.has(web, `"value":"bye 1.1.0"`))
		eventually(t, "it is active", bob.has(routes+"/"+name, `"state":"active"`))
	})
	step(t, "what he may not is not done", func(t *testing.T) {
		bob.must(t, http.StatusOK, http.MethodPost, routes+"/"+name, appRelease(name, ws, ns, app, cluster, obj{"greeting": "root"}))
		eventually(t, "it says why", bob.has(routes+"/"+name, `"state":"failed"`, "403 Forbidden", "clusterroles"))
		a.must(t, http.StatusNotFound, http.MethodGet, "/apis/rbac.authorization.k8s.io/v1/clusterroles/"+name, nil)
		eventually(t, "the former revision runs", a.has(web, `"value":"bye 1.1.0"`))
	})
	step(t, "an operation that is killed is finished", func(t *testing.T) {
		bob.must(t, http.StatusOK, http.MethodPost, routes+"/"+name, appRelease(name, ws, ns, app, v1, obj{"greeting": "killed", "many": 300}))
		eventually(t, "it is killed", killOperation)
		eventually(t, "it is active", bob.has(routes+"/"+name, `"state":"active"`))
		a.answers(t, web, `"value":"killed 1.0.0"`)
		a.must(t, http.StatusOK, http.MethodGet, "/api/v1/namespaces/"+ns+"/configmaps/redis-299", nil)
	})
	step(t, "it goes without his rights", func(t *testing.T) {
		a.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/namespaces/"+ns+"/rolebindings/"+binding, nil)
		eventually(t, "he has lost them", bob.is(http.StatusForbidden, http.MethodGet, routes))
		a.must(t, http.StatusOK, http.MethodDelete, routes+"/"+name, nil)
		eventually(t, "it is gone", a.is(http.StatusNotFound, http.MethodGet, storeKube+"/applicationreleases/"+name))
		a.must(t, http.StatusNotFound, http.MethodGet, web, nil)
		if out := (&helmRelease{t: t, namespace: ns}).cli("list"); strings.Contains(out, name) {
			t.Error(out)
		}
		for _, kind := range []string{"roles", "rolebindings"} {
			a.must(t, http.StatusNotFound, http.MethodGet, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+ns+"/"+kind+"/kapis:application-release:"+name, nil)
		}
	})
}

// killOperation kills an operation of this test's own ks-controller-manager that is under way.
func killOperation(context.Context) error {
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, file := range found {
		of := filepath.Dir(file)
		raw, err := os.ReadFile(file)
		if err != nil || !strings.HasSuffix(string(raw), "\x00"+helm.Subcommand+"\x00") {
			continue
		}
		status, err := os.ReadFile(filepath.Join(of, "status"))
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(string(status), "PPid:\t")
		parent, _, _ := strings.Cut(after, "\n")
		line, err := os.ReadFile("/proc/" + parent + "/cmdline")
		if err != nil || !strings.Contains(string(line), product.Dir) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(of))
		if err != nil {
			return err
		}
		return syscall.Kill(pid, syscall.SIGKILL)
	}
	return fmt.Errorf("no operation is under way")
}

// X34, X35: a release of YAML documents stays in its namespace, and custom resources of its kinds are read and written as the caller.
func TestAReleaseOfDocumentsStaysInItsNamespace(t *testing.T) {
	a, ws := admin(t), newManagedWorkspace(t, "admin")
	ns, app, name, bobs := unique("store"), unique("plain"), unique("docs"), unique("bob")
	newProject(t, ns, ws, nil)
	bob, _ := installerOf(t, bobs, ns)
	docs := configMapOf("one", "a") + configMapOf("two", "b")
	version := storeVersion(t, ws, app, "1.0.0", "yaml", []byte(strings.Replace(docs, "name: one", "name: one, namespace: default", 1)))
	routes, maps := storeAPI+"/namespaces/"+ns+"/applications", "/api/v1/namespaces/"+ns+"/configmaps/"
	t.Cleanup(func() {
		_, _ = a.do(context.Background(), http.MethodDelete, storeKube+"/applicationreleases/"+name, nil)
	})

	bob.must(t, http.StatusOK, http.MethodPost, routes, appRelease(name, ws, ns, app, version, nil))
	eventually(t, "it is active", bob.has(routes+"/"+name, `"state":"active"`, `"name":"two"`))
	a.answers(t, maps+"one", `"value":"a"`)
	a.must(t, http.StatusNotFound, http.MethodGet, "/api/v1/namespaces/default/configmaps/one", nil)
	bob.must(t, http.StatusOK, http.MethodPost, routes+"/"+name, appRelease(name, ws, ns, app, version, configMapOf("one", "c")+configMapOf("three", "d")))
	eventually(t, "what is not in it any more is gone", a.is(http.StatusNotFound, http.MethodGet, maps+"two"))
	a.answers(t, maps+"one", `"value":"c"`)
	bob.must(t, http.StatusOK, http.MethodPost, routes+"/"+name, appRelease(name, ws, ns, app, version, configMapOf("one", "c")))
	eventually(t, "another number of objects is refused", bob.has(routes+"/"+name, `"state":"failed"`, "by kind and number"))
	a.must(t, http.StatusOK, http.MethodGet, maps+"three", nil)
	bob.must(t, http.StatusOK, http.MethodDelete, routes+"/"+name, nil)
	eventually(t, "it is gone", a.is(http.StatusNotFound, http.MethodGet, storeKube+"/applicationreleases/"+name))
	for _, left := range []string{"one", "three"} {
		a.must(t, http.StatusNotFound, http.MethodGet, maps+left, nil)
	}

	last := unique("last")
	bob.must(t, http.StatusOK, http.MethodPost, routes, appRelease(last, ws, ns, app, version, nil))
	eventually(t, "another one is active", bob.has(routes+"/"+last, `"state":"active"`))
	a.must(t, http.StatusOK, http.MethodDelete, "/api/v1/namespaces/"+ns, nil)
	eventually(t, "it ends with its namespace", a.is(http.StatusNotFound, http.MethodGet, storeKube+"/applicationreleases/"+last))
}

// sweptRelease ends the name of a release of a tenant of the sweep.
const sweptRelease = "-release"

// newSweptRelease makes a release of a version that there is not.
func newSweptRelease(t *testing.T, w tenant) {
	t.Helper()
	r := appRelease(w.workspace+sweptRelease, w.workspace, w.namespace, "none", "none-1.0.0", w.workspace+"-values")
	r["metadata"].(obj)["annotations"] = obj{"application.kubesphere.io/req-user": "admin"}
	admin(t).create(t, storeKube+"/applicationreleases", r)
	eventually(t, "the release has its finalizer", admin(t).has(storeKube+"/applicationreleases/"+w.workspace+sweptRelease,
		`"helmrelease.application.kubesphere.io"`))
}
