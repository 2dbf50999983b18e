package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// accepts waits until a write is answered so.
func (c caller) accepts(code int, method, path string, body any, headers ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := c.do(ctx, method, path, body, headers...)
		if err == nil && r.code != code {
			err = fmt.Errorf("%d %s, want %d", r.code, clip(r.body), code)
		}
		return err
	}
}

// withRole is somebody with a GlobalRole of his own.
func withRole(t *testing.T, name string, role obj) caller {
	t.Helper()
	u := newUser(t, name)
	a := admin(t)
	a.create(t, iamAPI+"/globalroles", iamObject("GlobalRole", name, role))
	a.create(t, iamAPI+"/globalrolebindings", globalBinding(unique("bound"), name, name))
	return u
}

// S6, S7: who manages all workspaces, by the template that comes for it, makes himself a member of any; but not of the system's workspace, nor by a
// label of its namespaces, where the keys of the platform are.
func TestWhoManagesWorkspacesComesToNothingOfTheSystem(t *testing.T) {
	a, name, w, project, system := admin(t), unique("manager"), newWorkspaceOf(t), unique("plain"), "kubesphere-"+unique("part")
	u := withRole(t, name, obj{"aggregationRoleTemplates": obj{"templateNames": []string{"global-manage-workspaces"}}})
	for _, ns := range []string{project, system} {
		a.create(t, "/api/v1/namespaces", obj{"apiVersion": "v1", "kind": "Namespace", "metadata": obj{"name": ns}})
	}
	eventually(
		t,
		"he has his role",
		u.accepts(http.StatusOK, http.MethodPatch, "/api/v1/namespaces/"+project, `{"metadata":{"labels":{"kubesphere.io/managed":"true"}}}`, asMerge),
	)
	eventually(t, "and makes himself a member of a workspace",
		u.accepts(http.StatusOK, http.MethodPost, iamRoute+"/workspaces/"+w+"/workspacemembers", []obj{{"username": name, "roleRef": w + "-admin"}}))
	eventually(t, "and of a namespace",
		u.accepts(http.StatusOK, http.MethodPost, iamRoute+"/namespaces/"+project+"/namespacemembers", []obj{{"username": name, "roleRef": "admin"}}))

	eventually(t, "the namespace has joined the system's workspace", a.has("/api/v1/namespaces/"+system, `"kubesphere.io/workspace":"system-workspace"`))
	for _, ns := range []string{"kube-system", "kubesphere-system", system} {
		for _, patch := range []string{
			`{"metadata":{"labels":{"kubesphere.io/managed":null}}}`, `{"metadata":{"labels":{"kubesphere.io/workspace":"` + w + `"}}}`,
			`{"metadata":{"labels":{"kubesphere.io/protected-resource":"x"}}}`, `{"metadata":{"annotations":{"kubesphere.io/creator":"` + name + `"}}}`,
		} {
			u.must(t, http.StatusForbidden, http.MethodPatch, "/api/v1/namespaces/"+ns, patch, asMerge)
			if code, body := pastIt(t, name, http.MethodPatch, "/api/v1/namespaces/"+ns, patch, asMerge); code != http.StatusForbidden {
				t.Errorf("%s of %s: %d %s", patch, ns, code, clip(body))
			}
		}
	}
	u.must(
		t,
		http.StatusForbidden,
		http.MethodPatch,
		"/api/v1/namespaces/"+project,
		`{"metadata":{"labels":{"kubesphere.io/workspace":"system-workspace"}}}`,
		asMerge,
	)

	eventually(t, "the system's workspace has its roles", a.is(http.StatusOK, http.MethodGet, iamAPI+"/workspaceroles/system-workspace-admin"))
	u.must(
		t,
		http.StatusForbidden,
		http.MethodPost,
		iamRoute+"/workspaces/system-workspace/workspacemembers",
		[]obj{{"username": name, "roleRef": "system-workspace-admin"}},
	)
	for _, path := range []string{tenantAPI + "/workspacetemplates/system-workspace", tenants + "/workspacetemplates/system-workspace"} {
		u.must(t, http.StatusForbidden, http.MethodPatch, path, `{"spec":{"template":{"spec":{"manager":"`+name+`"}}}}`, asMerge)
	}
	u.must(t, http.StatusForbidden, http.MethodPatch, tenantAPI+"/workspaces/system-workspace", `{"spec":{"manager":"`+name+`"}}`, asMerge)

	// An administrator may have a namespace of the system managed. It gives nobody else a way in.
	a.must(t, http.StatusOK, http.MethodPatch, "/api/v1/namespaces/"+system, `{"metadata":{"labels":{"kubesphere.io/managed":"true"}}}`, asMerge)
	eventually(t, "it has its roles", a.is(http.StatusOK, http.MethodGet, iamAPI+"/namespaces/"+system+"/roles/admin"))
	u.must(t, http.StatusForbidden, http.MethodPost, iamRoute+"/namespaces/"+system+"/namespacemembers", []obj{{"username": name, "roleRef": "admin"}})
	a.must(t, http.StatusOK, http.MethodPatch, "/api/v1/namespaces/"+system, `{"metadata":{"labels":{"kubesphere.io/workspace":"system-workspace"}}}`, asMerge)
	u.must(t, http.StatusForbidden, http.MethodPatch, "/api/v1/namespaces/"+system, `{"metadata":{"labels":{"kubesphere.io/workspace":"`+w+`"}}}`, asMerge)
}

// S6: all verbs on users and roles, as charts have it for those who manage them, are no right to act as somebody else, and can't be made one.
func TestAStarOnUsersGivesNobodyImpersonation(t *testing.T) {
	name := unique("star")
	star := obj{"apiGroups": []string{"*"}, "resources": []string{"users", "serviceaccounts", "globalroles", "groups"}, "verbs": []string{"*"}}
	u := withRole(t, name, obj{"rules": []obj{star}})
	own := "/globalroles/" + name
	eventually(t, "he edits his role", u.accepts(http.StatusOK, http.MethodPatch, iamAPI+own, `{"metadata":{"annotations":{"a":"b"}}}`, asMerge))
	eventually(t, "at kube-apiserver too", func(context.Context) error {
		if code, body := pastIt(t, name, http.MethodPatch, iamAPI+own, `{"metadata":{"annotations":{"a":"c"}}}`, asMerge); code != http.StatusOK {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
	for claim, do := range ways(u, name) {
		t.Run(claim, func(t *testing.T) {
			for _, refused := range []struct {
				rule obj
				code int
			}{
				{obj{"apiGroups": []string{""}, "resources": []string{"users"}, "verbs": []string{"impersonate"}}, http.StatusForbidden},
				{obj{"apiGroups": []string{""}, "resources": []string{"serviceaccounts", "groups"}, "verbs": []string{"impersonate"}}, http.StatusForbidden},
				// No verb of a role has a colon (S63).
				{obj{"apiGroups": []string{"authentication.k8s.io"}, "resources": []string{"users"}, "verbs": []string{"impersonate:user-info"}},
					http.StatusUnprocessableEntity},
			} {
				if code, body := do(t, http.MethodPatch, own, encode(t, obj{"rules": []obj{star, refused.rule}}), asMerge); code != refused.code {
					t.Errorf("%v: %d %s, want %d", refused.rule, code, clip(body), refused.code)
				}
			}
			less := obj{"apiGroups": []string{""}, "resources": []string{"users"}, "verbs": []string{"get"}}
			if code, body := do(t, http.MethodPatch, own, encode(t, obj{"rules": []obj{star, less}}), asMerge); code != http.StatusOK {
				t.Errorf("what he holds: %d %s", code, clip(body))
			}
		})
	}
}

// S6: who runs a workspace says who is in its groups. One that is named like a group of an identity provider does not get what is meant for that one.
func TestAGroupOfAWorkspaceIsBoundNowhereElse(t *testing.T) {
	a, w, other, group := admin(t), newWorkspaceOf(t), newWorkspaceOf(t), unique("sre")
	ns, there := projectIn(t, w), projectIn(t, other)
	made := iamObject("Group", group, nil)
	made["metadata"].(obj)["labels"] = obj{workspaceLabel: w}
	a.create(t, iamAPI+"/groups", made)
	binding := func(kind, role string, labels obj) obj {
		return obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": kind + "Binding", "metadata": obj{"name": unique("sre"), "labels": labels},
			"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": kind, "name": role},
			"subjects": []obj{{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}}}
	}
	for what, c := range map[string]struct {
		path string
		body obj
	}{
		"on the platform":        {"/globalrolebindings", binding("GlobalRole", "platform-regular", nil)},
		"in the cluster":         {"/clusterrolebindings", binding("ClusterRole", "cluster-viewer", nil)},
		"in another workspace":   {"/workspacerolebindings", binding("WorkspaceRole", other+"-viewer", obj{workspaceLabel: other})},
		"in another's namespace": {"/namespaces/" + there + "/rolebindings", binding("Role", "viewer", nil)},
	} {
		eventually(t, what, func(ctx context.Context) error {
			if err := a.accepts(http.StatusForbidden, http.MethodPost, iamAPI+c.path+"?dryRun=All", c.body)(ctx); err != nil {
				return err
			}
			return a.accepts(http.StatusForbidden, http.MethodPost, iamRoute+c.path+"?dryRun=All", c.body)(ctx)
		})
	}
	a.create(t, iamAPI+"/workspacerolebindings", binding("WorkspaceRole", w+"-viewer", obj{workspaceLabel: w}))
	eventually(t, "the namespace is known to be of the workspace",
		a.accepts(http.StatusCreated, http.MethodPost, iamAPI+"/namespaces/"+ns+"/rolebindings", binding("Role", "viewer", nil)))
}

// D8: the console lists the namespaces of the system apart from those of users, and nobody deletes one by its row's menu.
func TestD8NamespacesOfTheSystemAreInItsWorkspace(t *testing.T) {
	a, project, part := admin(t), unique("plain"), "kubesphere-"+unique("part")
	for _, ns := range []string{project, part} {
		a.create(t, "/api/v1/namespaces", obj{"apiVersion": "v1", "kind": "Namespace", "metadata": obj{"name": ns}})
	}
	names := func(ctx context.Context, selector string) (map[string]bool, error) {
		r, err := a.do(ctx, http.MethodGet, kapis+"/namespaces?sortBy=createTime&limit=-1&labelSelector="+url.QueryEscape(selector), nil)
		if err != nil {
			return nil, err
		}
		found := map[string]bool{}
		for _, o := range decode[list](t, r.body).Items {
			found[o.Metadata.Name] = true
		}
		return found, nil
	}
	eventually(t, "they are listed apart", func(ctx context.Context) error {
		system, err := names(ctx, "kubesphere.io/workspace=system-workspace")
		if err != nil {
			return err
		}
		users, err := names(ctx, "kubesphere.io/workspace!=system-workspace,!kubesphere.io/devopsproject")
		if err != nil {
			return err
		}
		for _, ns := range []string{"default", "kube-system", "kube-public", "kube-node-lease", part} {
			if !system[ns] || users[ns] {
				return fmt.Errorf("%s is among the system's: %t, among those of users: %t", ns, system[ns], users[ns])
			}
		}
		if system[project] || !users[project] {
			return fmt.Errorf("%s is among the system's: %t, among those of users: %t", project, system[project], users[project])
		}
		return nil
	})
	for _, path := range []string{"/api/v1/namespaces/" + part, tenants + "/workspaces/system-workspace/namespaces/" + part} {
		if r := a.must(t, http.StatusForbidden, http.MethodDelete, path, nil); !strings.Contains(r.body, "protected") {
			t.Errorf("DELETE %s: %s, want a reason", path, r.body)
		}
	}
	// Who may do everything takes it out, and it stays out.
	out := `{"metadata":{"labels":{"kubesphere.io/workspace":null,"kubesphere.io/protected-resource":null}}}`
	a.must(t, http.StatusOK, http.MethodPatch, "/api/v1/namespaces/"+part, out, asMerge)
	a.must(t, http.StatusOK, http.MethodDelete, "/api/v1/namespaces/"+part, nil)
}
