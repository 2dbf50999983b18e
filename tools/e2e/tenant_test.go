package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const (
	tenants = "/kapis/tenant.kubesphere.io/v1beta1"
)

// holds returns a condition: a list has exactly these objects.
func (c caller) holds(path string, names ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := c.do(ctx, http.MethodGet, path, nil)
		if err != nil {
			return err
		}
		if r.code != http.StatusOK {
			return fmt.Errorf("GET %s = %d %s", path, r.code, clip(r.body))
		}
		var l list
		if err := json.Unmarshal([]byte(r.body), &l); err != nil {
			return fmt.Errorf("GET %s: %w", path, err)
		}
		got := l.names()
		slices.Sort(got)
		if !slices.Equal(got, names) || l.TotalItems == nil || *l.TotalItems != len(names) {
			return fmt.Errorf("GET %s: %v, want %v, in %s", path, got, names, clip(r.body))
		}
		return nil
	}
}

// newWorkspaceOf makes a workspace as the console does.
func newWorkspaceOf(t *testing.T) string {
	t.Helper()
	a, name := admin(t), unique("workspace")
	a.must(t, http.StatusOK, http.MethodPost, tenants+"/workspacetemplates", obj{
		"apiVersion": "iam.kubesphere.io/v1beta1",
		"kind":       "WorkspaceTemplate",
		"metadata":   obj{"name": name, "annotations": obj{"kubesphere.io/alias-name": "x", "kubesphere.io/creator": "admin"}},
		"spec": obj{
			"template":  obj{"spec": obj{"manager": "admin"}, "metadata": obj{"annotations": obj{"kubesphere.io/creator": "admin"}}},
			"placement": obj{"clusters": []obj{{"name": "host"}}},
		},
	})
	t.Cleanup(func() {
		_, _ = a.do(context.Background(), http.MethodDelete, tenants+"/workspacetemplates/"+name, nil)
		_, _ = a.do(context.Background(), http.MethodDelete, tenantAPI+"/workspaces/"+name, nil)
	})
	// Its Workspace is made by a controller, or here.
	_, _ = a.do(
		t.Context(),
		http.MethodPost,
		tenantAPI+"/workspaces",
		obj{"apiVersion": "tenant.kubesphere.io/v1beta1", "kind": "Workspace", "metadata": obj{"name": name}, "spec": obj{"manager": "admin"}},
	)
	for _, path := range []string{"/workspacetemplates/", "/workspaces/"} {
		eventually(t, "the workspace is known", a.is(http.StatusOK, http.MethodGet, tenants+path+name))
	}
	return name
}

// projectIn makes a namespace in a workspace, as the console does.
func projectIn(t *testing.T, workspace string) string {
	t.Helper()
	a, name := admin(t), unique("project")
	a.must(t, http.StatusOK, http.MethodPost, "/clusters/host"+tenants+"/workspaces/"+workspace+"/namespaces", obj{
		"cluster": "host", "apiVersion": "v1", "kind": "Namespace", "metadata": obj{
			"name": name, "labels": obj{workspaceLabel: workspace, "kubesphere.io/managed": "true"}, "annotations": obj{"kubesphere.io/creator": "admin"},
		},
	})
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, "/api/v1/namespaces/"+name, nil) })
	eventually(t, "the namespace is in the workspace", a.is(http.StatusOK, http.MethodGet, tenants+"/workspaces/"+workspace+"/namespaces/"+name))
	return name
}

// The story of a workspace, as its administrator sees it.
func TestAWorkspaceIsMadeSeenFilledAndDeleted(t *testing.T) { // U51, U52, S7
	proves(t, "S7")
	a, mine, theirs := admin(t), newWorkspaceOf(t), newWorkspaceOf(t)
	ns := projectIn(t, mine)
	in := func(w string) string { return tenants + "/workspaces/" + w }
	if err := a.holds(in(mine)+"/namespaces?sortBy=createTime&limit=10&page=1&labelSelector=kubesphere.io/managed=true,kubesphere.io/kubefed-host-namespace!=true",
		ns)(t.Context()); err != nil {
		t.Error(err)
	}
	if err := a.holds(in(mine)+"/clusters?sortBy=createTime&limit=10&page=1", "host")(t.Context()); err != nil {
		t.Error(err)
	}
	a.must(t, http.StatusNotFound, http.MethodGet, in(theirs)+"/namespaces/"+ns, nil)
	a.must(t, http.StatusNotFound, http.MethodGet, in(mine)+"/resourcequotas/"+mine, nil) // there is none
	if r := a.must(t, http.StatusOK, http.MethodGet, in(mine)+"/metrics", nil); !strings.Contains(r.body, "workspace_namespace_count") {
		t.Errorf("%s", r.body)
	}
	edited := a.must(t, http.StatusOK, http.MethodPatch, tenants+"/workspacetemplates/"+mine,
		`[{"op":"add","path":"/metadata/annotations","value":{"kubesphere.io/alias-name":"Mine"}}]`, asMerge)
	if !strings.Contains(edited.body, `"kubesphere.io/alias-name":"Mine"`) {
		t.Errorf("%s", edited.body)
	}
	for _, patch := range []string{`{"metadata":{"labels":{"` + workspaceLabel + `":"` + theirs + `"}}}`, `[{"op":"remove","path":"/metadata/labels"}]`} {
		a.must(t, http.StatusBadRequest, http.MethodPatch, in(mine)+"/namespaces/"+ns, patch, asMerge)
	}
	a.must(t, http.StatusOK, http.MethodPatch, in(mine)+"/namespaces/"+ns, `{"metadata":{"annotations":{"kubesphere.io/description":"d"}}}`, asMerge)

	moved := a.must(t, http.StatusOK, http.MethodPost, in(theirs)+"/namespaceassignments", obj{"namespaces": []string{ns, "kube-none"}})
	if !strings.Contains(moved.body, `{"namespace":"`+ns+`","result":"Moved"}`) || !strings.Contains(moved.body, `"code":404`) {
		t.Errorf("%s", moved.body)
	}
	eventually(t, "it is there", a.holds(in(theirs)+"/namespaces", ns))
	eventually(t, "and here no more", a.holds(in(mine)+"/namespaces"))

	a.must(
		t,
		http.StatusOK,
		http.MethodDelete,
		tenants+"/workspacetemplates/"+theirs,
		obj{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"},
	)
	eventually(t, "the workspace is gone", a.is(http.StatusNotFound, http.MethodGet, tenants+"/workspacetemplates/"+theirs))
}

// S1: whoever is a member of nothing sees that there is nothing, and is refused nowhere that every page asks.
func TestWithoutAMembershipEveryListIsEmpty(t *testing.T) {
	proves(t, "S1")
	w := newWorkspaceOf(t)
	ns, u := projectIn(t, w), newUser(t, unique("alone"))
	for _, path := range []string{"/clusters", "/workspaces", "/workspacetemplates?limit=10", "/namespaces", "/workspaces/" + w + "/namespaces"} {
		if err := u.holds(tenants + path)(t.Context()); err != nil {
			t.Error(err)
		}
	}
	u.must(t, http.StatusOK, http.MethodGet, tenants+"/metrics", nil)
	for _, path := range []string{"", "/clusters", "/metrics", "/namespaces/" + ns, "/resourcequotas/x", "/workspacemembers/admin/namespaces"} {
		u.must(t, http.StatusForbidden, http.MethodGet, tenants+"/workspaces/"+w+path, nil)
	}
	u.must(t, http.StatusForbidden, http.MethodGet, tenants+"/workspacetemplates/"+w, nil)
	anonymous().must(t, http.StatusForbidden, http.MethodGet, tenants+"/workspaces", nil)
}

// A member sees exactly his own, until he is none.
func TestAMemberSeesHisOwnUntilHeIsNone(t *testing.T) { // S9
	proves(t, "S9", "S10")
	a, w := admin(t), newWorkspaceOf(t)
	mine, other, name := projectIn(t, w), projectIn(t, w), unique("member")
	u := newUser(t, name)
	subject := []obj{{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}}
	ref := func(kind, role string) obj { return obj{"apiGroup": "iam.kubesphere.io", "kind": kind, "name": role} }
	a.create(t, iamAPI+"/workspaceroles", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceRole",
		"metadata": obj{"name": w + "-guest", "labels": obj{workspaceLabel: w}}, "rules": []obj{}})
	a.create(t, iamAPI+"/workspacerolebindings", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceRoleBinding",
		"metadata": obj{"name": name + "-guest", "labels": obj{workspaceLabel: w}}, "roleRef": ref("WorkspaceRole", w+"-guest"), "subjects": subject})
	a.create(t, iamAPI+"/namespaces/"+mine+"/rolebindings", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "RoleBinding",
		"metadata": obj{"name": name, "namespace": mine}, "roleRef": ref("Role", "guest"), "subjects": subject})

	eventually(t, "he sees the workspace", u.holds(tenants+"/workspaces", w))
	eventually(t, "and his project", u.holds(tenants+"/workspaces/"+w+"/namespaces", mine))
	for path, names := range map[string][]string{"/workspacetemplates": {w}, "/namespaces": {mine},
		"/clusters": nil, "/clusters?roleBindingExists=true": {"host"}} { // D5
		if err := u.holds(tenants+path, names...)(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for path, code := range map[string]int{"": 200, "/clusters": 200, "/metrics": 200, "/namespaces/" + mine: 200, "/namespaces/" + other: 403} {
		u.must(t, code, http.MethodGet, tenants+"/workspaces/"+w+path, nil)
	}
	if err := a.holds(tenants+"/workspaces/"+w+"/workspacemembers/"+name+"/namespaces?limit=10", mine)(t.Context()); err != nil {
		t.Error(err)
	}
	u.must(t, http.StatusForbidden, http.MethodPatch, tenants+"/workspaces/"+w+"/namespaces/"+mine, `{"metadata":{"labels":{"a":"b"}}}`, asMerge) // S10
	u.must(t, http.StatusForbidden, http.MethodDelete, tenants+"/workspaces/"+w, nil)

	a.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/workspacerolebindings/"+name+"-guest", nil)
	a.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/namespaces/"+mine+"/rolebindings/"+name, nil)
	for _, path := range []string{"/workspaces", "/workspacetemplates", "/namespaces", "/clusters", "/workspaces/" + w + "/namespaces"} {
		eventually(t, "nothing is left of "+path, u.holds(tenants+path))
	}
	u.must(t, http.StatusForbidden, http.MethodGet, tenants+"/workspaces/"+w, nil)
}
