package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// target is a kind that people write, with the least that its schema takes.
type target struct {
	api, kind, plural string
	namespaced        bool
	more              obj
}

// path is where the kind is served below a root, /apis or /kapis, in a place ("", "/namespaces/x", "/workspaces/w" ...).
func (k target) path(root, place string) string {
	if !strings.Contains(k.api, "/") {
		root = strings.TrimSuffix(root, "s")
	}
	return root + "/" + k.api + place + "/" + k.plural
}

// spot is an object at its path, and whose place that is: "a", "b" or "platform". The object is there already.
type spot struct {
	target
	path, name, namespace, place string
}

// body is an object of the kind for a spot, as somebody would write it who means no harm.
func (s spot) body(name string) obj {
	meta := obj{"name": name}
	if s.namespaced {
		meta["namespace"] = s.namespace
	}
	o := obj{"apiVersion": s.api, "kind": s.kind, "metadata": meta}
	maps.Copy(o, s.more)
	if named := storeSpec(s.kind, name); named != nil {
		o["spec"] = named
	}
	return o
}

func hostileTargets(viewer, viewed string) []target {
	reads := []obj{{"apiGroups": []string{""}, "resources": []string{"configmaps"}, "verbs": []string{"get"}}}
	subject := []obj{{"kind": "User", "name": viewer, "apiGroup": "rbac.authorization.k8s.io"}}
	to := func(kind, name string) obj {
		return obj{"roleRef": obj{"apiGroup": "iam.kubesphere.io", "kind": kind, "name": name}, "subjects": subject}
	}
	const iam, rbac = "iam.kubesphere.io/v1beta1", "rbac.authorization.k8s.io/v1"
	container := obj{"containers": []obj{{"name": "c", "image": "none.example/x"}}}
	return append([]target{
		{"v1", "ConfigMap", "configmaps", true, obj{"data": obj{"a": "b"}}},
		{"v1", "Secret", "secrets", true, obj{"stringData": obj{"a": "b"}}},
		{"v1", "ServiceAccount", "serviceaccounts", true, nil},
		{"v1", "Service", "services", true, obj{"spec": obj{"clusterIP": "None", "ports": []obj{{"port": 80}}}}},
		{"v1", "ResourceQuota", "resourcequotas", true, obj{"spec": obj{"hard": obj{"count/jobs.batch": "100"}}}},
		{"apps/v1", "Deployment", "deployments", true, obj{"spec": obj{"replicas": 0, "selector": obj{"matchLabels": obj{"a": "b"}},
			"template": obj{"metadata": obj{"labels": obj{"a": "b"}}, "spec": container}}}},
		{rbac, "Role", "roles", true, obj{"rules": reads}},
		{rbac, "RoleBinding", "rolebindings", true, obj{"roleRef": obj{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": viewed},
			"subjects": subject}},
		{iam, "Role", "roles", true, obj{"rules": reads}},
		{iam, "RoleBinding", "rolebindings", true, to("Role", viewed)},
		{"coordination.k8s.io/v1", "Lease", "leases", true, obj{"spec": obj{"holderIdentity": "x"}}},
		{"kubesphere.io/v1alpha1", "ServiceAccount", "serviceaccounts", true, nil},
		{iam, "WorkspaceRole", "workspaceroles", false, obj{"rules": reads}},
		{iam, "WorkspaceRoleBinding", "workspacerolebindings", false, to("WorkspaceRole", viewed)},
		{iam, "GlobalRole", "globalroles", false, obj{"rules": reads}},
		{iam, "GlobalRoleBinding", "globalrolebindings", false, to("GlobalRole", viewed)},
		{iam, "ClusterRole", "clusterroles", false, obj{"rules": reads}},
		{iam, "Group", "groups", false, nil},
		{iam, "GroupBinding", "groupbindings", false, obj{"groupRef": obj{"apiGroup": "iam.kubesphere.io", "kind": "Group", "name": viewed},
			"users": []string{viewer}}},
		{iam, "RoleTemplate", "roletemplates", false, obj{"spec": obj{"rules": reads}}},
		{iam, "User", "users", false, obj{"spec": obj{"email": viewed + "@hostile.example"}}},
		{"tenant.kubesphere.io/v1beta1", "WorkspaceTemplate", "workspacetemplates", false, obj{"spec": obj{"template": obj{"spec": obj{}}}}},
		{"tenant.kubesphere.io/v1beta1", "Workspace", "workspaces", false, obj{"spec": obj{}}},
		{"v1", "Namespace", "namespaces", false, nil},
		{"cluster.kubesphere.io/v1alpha1", "Cluster", "clusters", false, obj{"spec": obj{"connection": obj{"type": "direct"}}}},
		{"quota.kubesphere.io/v1alpha2", "ResourceQuota", "resourcequotas", false, obj{"spec": obj{"selector": obj{"a": "b"},
			"quota": obj{"hard": obj{"count/jobs.batch": "100"}}}}},
		{"session.kapis.dev/v1alpha1", "Factor", "factors", false, obj{"spec": obj{"user": viewer}}},
		{rbac, "ClusterRole", "clusterroles", false, obj{"rules": reads}},
		{"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", false, nil},
	}, storeTargets()...)
}

// spots makes an object of each kind in each place, and returns every path at which they are written: at both doors, and in the workspace a.
func (w *hostileWorld) spots(t *testing.T) []spot {
	t.Helper()
	var out []spot
	for _, k := range hostileTargets(w.viewer, w.one) {
		for _, place := range []string{"a", "b", "platform"} {
			s := spot{k, "", w.one + "-" + place, "", place}
			if k.namespaced {
				s.namespace = map[string]string{"a": w.a.namespace, "b": w.b.namespace, "platform": systemNamespace}[place]
			}
			w.exists(t, &s)
			if s.name == "" {
				continue
			}
			within := ""
			if k.namespaced {
				within = "/namespaces/" + s.namespace
			}
			both := "/workspaces/" + w.a.workspace + within
			for _, path := range []string{k.path("/apis", within), k.path("/kapis", within), k.path("/kapis", both)} {
				s.path = path
				out = append(out, s)
			}
		}
	}
	return out
}

// exists has the object of a spot be there: one of those that the workspaces have, or a new one.
func (w *hostileWorld) exists(t *testing.T, s *spot) {
	t.Helper()
	tenants := map[string]tenant{"a": w.a, "b": w.b, "platform": {workspace: "system-workspace", namespace: "default"}}
	switch s.plural {
	case "workspaces", "workspacetemplates":
		s.name = tenants[s.place].workspace
		return
	case "namespaces":
		s.name = tenants[s.place].namespace
		return
	}
	if s.plural == "serviceaccounts" && s.api == "v1" && s.place == "a" {
		s.name = "robot" // one of those who write
		return
	}
	a, path := admin(t), s.target.path("/apis", "")
	if s.namespaced {
		path = s.target.path("/apis", "/namespaces/"+s.namespace)
	}
	o := s.body(s.name)
	if s.plural == "users" {
		o["spec"] = obj{"email": s.name + "@example.com", "password": password}
	}
	if !s.namespaced && s.place != "platform" {
		o["metadata"].(obj)["labels"] = obj{workspaceLabel: tenants[s.place].workspace}
	}
	if s.kind == "ApplicationRelease" {
		o["metadata"].(obj)["annotations"] = obj{"application.kubesphere.io/req-user": "admin"} // who writes it
	}
	a.must(t, http.StatusCreated, http.MethodPost, path, o)
	name := s.name
	t.Cleanup(func() {
		_, _ = a.do(context.Background(), http.MethodPatch, path+"/"+name, `{"metadata":{"finalizers":null}}`, asMerge)
		_, _ = a.do(context.Background(), http.MethodDelete, path+"/"+name, nil)
	})
	if isOfStore(s.target) { // whose routes are others below /kapis, and which no route asks a cache about
		if finalizer := storeFinalizers[s.kind]; finalizer != "" { // later it would be a change that somebody else made
			eventually(t, path+"/"+name+" has its finalizer", a.has(path+"/"+name, `"`+finalizer+`"`))
		}
		return
	}
	eventually(t, path+"/"+name+" is known", func(ctx context.Context) error {
		r, err := a.do(ctx, http.MethodGet, strings.Replace(strings.Replace(path, "/apis/", "/kapis/", 1), "/api/", "/kapi/", 1)+"/"+name, nil)
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
}
