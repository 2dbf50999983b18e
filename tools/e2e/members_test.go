package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// member is what the tests read of a user in a list of members.
type member struct {
	Kind     string
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Spec map[string]any
}

// showsMembers returns a condition: a list has just these members, with these roles ("alice=demo-viewer"), and counts them.
func (c caller) showsMembers(path, annotation string, want ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := c.do(ctx, http.MethodGet, path+"?sortBy=name&ascending=true", nil)
		if err != nil {
			return err
		}
		var got []string
		list := decodeOr[struct {
			Items      []member
			TotalItems int
		}](r.body)
		for _, m := range list.Items {
			got = append(got, m.Metadata.Name+"="+m.Metadata.Annotations["iam.kubesphere.io/"+annotation])
			if m.Kind != "User" || m.Spec["password"] != nil {
				return fmt.Errorf("%+v", m)
			}
		}
		if r.code != http.StatusOK || strings.Join(got, " ") != strings.Join(want, " ") || list.TotalItems != len(want) {
			return fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return nil
	}
}

// newWorkspace makes a workspace with two roles, and returns its name: "-viewer" reads configmaps in it, and says so to pages.
func newWorkspace(t *testing.T) string {
	t.Helper()
	a, name := admin(t), unique("members")
	a.create(
		t,
		"/apis/tenant.kubesphere.io/v1beta1/workspaces",
		obj{"apiVersion": "tenant.kubesphere.io/v1beta1", "kind": "Workspace", "metadata": obj{"name": name}},
	)
	for role, verbs := range map[string][]any{"viewer": {"get", "list"}, "editor": {"get", "list", "create"}} {
		made := name + "-" + role
		a.create(t, iamAPI+"/workspaceroles", obj{
			"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceRole",
			"metadata":                 obj{"name": made, "labels": obj{"kubesphere.io/workspace": name}},
			"aggregationRoleTemplates": obj{"templateNames": []any{"workspace-view-projects"}},
			"rules":                    []any{obj{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": verbs}},
		})
		eventually(t, "the role is known", a.is(http.StatusOK, http.MethodGet, iamRoutes+"/workspaces/"+name+"/workspaceroles/"+made))
	}
	return name
}

// U52: members of a workspace are invited, listed, changed and removed, as the console's pages do it.
func TestMembersOfAWorkspace(t *testing.T) {
	proves(t, "S6")
	a, w := admin(t), newWorkspace(t)
	ns := unique("members")
	a.create(t, "/api/v1/namespaces", obj{"apiVersion": "v1", "kind": "Namespace", "metadata": obj{"name": ns, "labels": obj{"kubesphere.io/workspace": w}}})
	alice, bob := unique("alice"), unique("bob")
	me := newUser(t, alice)
	newUser(t, bob)
	path, maps := iamRoutes+"/workspaces/"+w+"/workspacemembers", "/kapi/v1/namespaces/"+ns+"/configmaps"
	viewer, editor := w+"-viewer", w+"-editor"
	me.must(t, http.StatusForbidden, http.MethodGet, maps, nil)

	invited := a.must(t, http.StatusOK, http.MethodPost, path, []obj{{"username": alice, "roleRef": viewer}, {"username": bob, "roleRef": viewer}}).body
	if !strings.Contains(invited, alice) || !strings.HasPrefix(strings.TrimSpace(invited), "[") {
		t.Errorf("answered %s", invited)
	}
	eventually(t, "they are listed", a.showsMembers(path, "workspacerole", alice+"="+viewer, bob+"="+viewer))
	within(t, revocation, "the member sees what is in the workspace", me.is(http.StatusOK, http.MethodGet, maps))
	if one := a.must(t, http.StatusOK, http.MethodGet, path+"/"+alice, nil).body; !strings.Contains(one, viewer) {
		t.Errorf("%s", one)
	}
	me.must(t, http.StatusOK, http.MethodGet, path+"/"+alice, nil)                                         // oneself
	me.must(t, http.StatusOK, http.MethodGet, path+"/"+bob, nil)                                           // viewers see members
	me.must(t, http.StatusForbidden, http.MethodPost, path, []obj{{"username": alice, "roleRef": editor}}) // S6
	me.must(t, http.StatusForbidden, http.MethodPut, path+"/"+alice, obj{"username": alice, "roleRef": editor})

	menus := me.must(t, http.StatusOK, http.MethodGet, iamRoutes+"/users/"+alice+"/roletemplates?scope=workspace&workspace="+w, nil).body
	if !strings.Contains(menus, "workspace-view-projects") || !strings.Contains(menus, "role-template-rules") {
		t.Errorf("menus %s", clip(menus))
	}
	if menus := a.must(t, http.StatusOK, http.MethodGet, iamRoutes+"/users/admin/roletemplates?scope=global", nil).
		body; !strings.Contains(menus, "global-manage-users") {
		t.Errorf("the admin's menus %s", clip(menus))
	}
	me.must(t, http.StatusForbidden, http.MethodGet, iamRoutes+"/users/admin/roletemplates?scope=global", nil)

	r := a.must(t, http.StatusNotFound, http.MethodPost, path, []obj{{"username": bob, "roleRef": editor}, {"username": "nobody", "roleRef": viewer}})
	if !strings.Contains(r.body, "nothing was written") {
		t.Errorf("%s", r.body)
	}
	a.must(t, http.StatusOK, http.MethodPut, path+"/"+bob, obj{"username": bob, "roleRef": editor})
	eventually(t, "a changed role is shown once", a.showsMembers(path, "workspacerole", alice+"="+viewer, bob+"="+editor))
	a.must(t, http.StatusOK, http.MethodDelete, path+"/"+alice, nil)
	within(t, revocation, "who is removed sees nothing", me.is(http.StatusForbidden, http.MethodGet, maps))
	eventually(t, "nor is listed", a.showsMembers(path, "workspacerole", bob+"="+editor))
	a.must(t, http.StatusBadRequest, http.MethodDelete, path+"/"+alice, nil)
	a.must(t, http.StatusNotFound, http.MethodGet, iamRoutes+"/workspaces/none/workspacemembers", nil)

	a.must(t, http.StatusOK, http.MethodDelete, iamRoutes+"/users/"+bob, nil)
	eventually(t, "who is gone is no member", a.showsMembers(path, "workspacerole"))
}

// Members of a namespace and of the cluster, by the names of now and by those of older clients.
func TestMembersOfANamespaceAndOfTheCluster(t *testing.T) {
	a, ns, name := admin(t), newNamespace(t), unique("alice")
	newUser(t, name)
	role(t, ns, "viewer", rule{[]string{""}, []string{"configmaps"}, []string{"get"}})
	const older = "/kapis/iam.kubesphere.io/v1alpha2"
	now, then := iamRoutes+"/namespaces/"+ns+"/namespacemembers", older+"/namespaces/"+ns+"/members"
	eventually(t, "the role is known", a.is(http.StatusOK, http.MethodGet, iamRoutes+"/namespaces/"+ns+"/roles/viewer"))
	a.must(t, http.StatusOK, http.MethodPost, then, []obj{{"username": name, "roleRef": "viewer"}})
	eventually(t, "it is listed", a.showsMembers(now, "role", name+"=viewer"))
	eventually(t, "by the older name too", a.showsMembers(then, "role", name+"=viewer"))
	a.must(t, http.StatusOK, http.MethodDelete, now+"/"+name, nil)
	eventually(t, "and gone", a.showsMembers(then, "role"))

	cluster := iamRoutes + "/clustermembers"
	a.must(t, http.StatusOK, http.MethodPost, cluster, []obj{{"username": name, "roleRef": "cluster-viewer"}})
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, cluster+"/"+name, nil) })
	if one := a.must(t, http.StatusOK, http.MethodGet, cluster+"/"+name, nil).body; !strings.Contains(one, "cluster-viewer") {
		t.Errorf("%s", one)
	}

	// What somebody is, as older clients ask for it: whoever may read members, and everybody about himself.
	nobody := unique("nobody")
	me := newUser(t, nobody)
	for path, want := range map[string]string{ // O25: templates as roles
		"/clustermembers/" + name + "/clusterroles":                                 `"cluster-view-nodes"`,
		"/namespaces/" + ns + "/namespacemembers/" + name + "/roles":                `"namespace-view-`, // by the role in the cluster
		"/namespaces/" + ns + "/members/" + name + "/roles":                         `"namespace-view-`,
		"/workspaces/system-workspace/workspacemembers/" + name + "/workspaceroles": `[`,
		"/users/admin/globalroles":                                                  `"global-manage-users"`,
	} {
		if got := a.must(t, http.StatusOK, http.MethodGet, older+path, nil).body; !strings.HasPrefix(got, "[") || !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s in an array", path, clip(got), want)
		}
		me.must(t, http.StatusForbidden, http.MethodGet, older+path, nil)
		if !strings.Contains(path, name) {
			continue
		}
		if got := me.must(t, http.StatusOK, http.MethodGet, older+strings.Replace(path, name, nobody, 1), nil).body; strings.TrimSpace(got) != "[]" {
			t.Errorf("%s about oneself: got %s, want nothing", path, clip(got))
		}
	}

	made := unique("older")
	a.must(t, http.StatusOK, http.MethodPost, older+"/namespaces/"+ns+"/roles",
		obj{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": obj{"name": made}, "rules": []any{}})
	eventually(t, "a role made by an older client is there", a.is(http.StatusOK, http.MethodGet, older+"/namespaces/"+ns+"/roles/"+made))
	a.must(t, http.StatusOK, http.MethodGet, iamAPI+"/namespaces/"+ns+"/roles/"+made, nil)
	a.must(t, http.StatusOK, http.MethodGet, older+"/clusterroles?limit=1", nil)
	if got := a.must(t, http.StatusOK, http.MethodGet, older+"/workspaces/system-workspace/rolebindings?limit=1", nil).body; !strings.HasPrefix(got, "[") {
		t.Errorf("the bindings in a workspace are no array: %s", clip(got))
	}
	me.must(t, http.StatusForbidden, http.MethodGet, older+"/workspaces/system-workspace/rolebindings", nil)
	a.must(t, http.StatusOK, http.MethodGet, older+"/globalroles?limit=1", nil)
}

// S6: users by the console's own bodies.
func TestUsersAreManaged(t *testing.T) {
	proves(t, "S6")
	a, name := admin(t), unique("managed")
	users := iamRoutes + "/users"
	a.must(t, http.StatusOK, http.MethodPost, users, obj{
		"metadata": obj{
			"annotations": obj{"iam.kubesphere.io/uninitialized": "true", "kubesphere.io/creator": "admin", "iam.kubesphere.io/globalrole": "platform-regular"},
			"name":        name,
		},
		"apiVersion": "iam.kubesphere.io/v1beta1",
		"kind":       "User",
		"spec":       obj{"email": name + "@example.com", "password": password},
	})
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, users+"/"+name, nil) })
	var read reply
	ready := func(state string) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			if read, err = a.do(ctx, http.MethodGet, users+"/"+name, nil); err == nil &&
				(!strings.Contains(read.body, state) || !strings.Contains(read.body, `"iam.kubesphere.io/globalrole":"platform-regular"`)) {
				err = fmt.Errorf("%d %s", read.code, clip(read.body))
			}
			return err
		}
	}
	eventually(t, "it is active, and has its role", ready(`"Active"`))
	listed := a.must(t, http.StatusOK, http.MethodGet, users+"?globalrole=platform-regular&fieldSelector=spec.email="+name+"@example.com", nil).body
	if !strings.Contains(listed, `"totalItems":1`) || strings.Contains(listed, `"password"`) {
		t.Errorf("%s", clip(listed))
	}
	u := decode[obj](t, read.body)
	u["status"].(obj)["state"] = "Disabled"
	delete(u["metadata"].(obj), "resourceVersion")
	if r := a.must(t, http.StatusOK, http.MethodPut, users+"/"+name, u); !strings.Contains(r.body, `"Disabled"`) || strings.Contains(r.body, "$2a$") {
		t.Errorf("%s", clip(r.body))
	}
	eventually(t, "who is disabled can't log in", func(ctx context.Context) error {
		r, err := passwordGrant(ctx, product.URL, name, password)
		if err == nil && r.code == http.StatusOK {
			err = fmt.Errorf("%d", r.code)
		}
		return err
	})
	a.must(
		t,
		http.StatusOK,
		http.MethodPatch,
		users+"/"+name,
		[]obj{{"op": "replace", "path": "/status/state", "value": "Active"}},
		"Content-Type: application/merge-patch+json",
	)
	eventually(t, "and can again", func(ctx context.Context) error {
		r, err := passwordGrant(ctx, product.URL, name, password)
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, r.body)
		}
		return err
	})
	a.must(
		t,
		http.StatusNotFound,
		http.MethodPatch,
		users+"/"+name,
		obj{"metadata": obj{"annotations": obj{"iam.kubesphere.io/globalrole": "none"}}},
		"Content-Type: application/merge-patch+json",
	)
	a.must(t, http.StatusForbidden, http.MethodDelete, users+"/admin", nil)
	me := loginAt(t, product.URL, name, password)
	me.must(
		t,
		http.StatusForbidden,
		http.MethodPatch,
		users+"/"+name,
		obj{"metadata": obj{"annotations": obj{"iam.kubesphere.io/globalrole": "platform-admin"}}},
		"Content-Type: application/merge-patch+json",
	)
	me.must(t, http.StatusForbidden, http.MethodPatch, users+"/"+name, obj{"status": obj{"state": "Disabled"}}, "Content-Type: application/merge-patch+json")
	me.must(t, http.StatusOK, http.MethodPatch, users+"/"+name, obj{"spec": obj{"lang": "en"}}, "Content-Type: application/merge-patch+json")
	a.must(t, http.StatusOK, http.MethodDelete, users+"/"+name, nil)
}

// decodeOr reads what can be read.
func decodeOr[T any](body string) (v T) {
	_ = json.Unmarshal([]byte(body), &v)
	return v
}
