package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
)

// The forms of the console of the 4.1 line, with the very bodies that it sends.
func TestTheFormsOfTheConsoleDoWhatTheySay(t *testing.T) {
	a := admin(t)
	w, bob, role := unique("form"), unique("bob"), unique("platform-role")
	ws, iam := tenants+"/workspacetemplates", iamRoute
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, iam+"/users/"+bob, nil) })
	newTeam(t, w)

	t.Run("create a user, and let him choose a password", func(t *testing.T) {
		a.must(t, http.StatusOK, http.MethodPost, iam+"/users", obj{
			"metadata": obj{
				"annotations": obj{"iam.kubesphere.io/uninitialized": "true", "kubesphere.io/creator": "admin", "iam.kubesphere.io/globalrole": "platform-regular"},
				"name":        bob,
			},
			"apiVersion": "iam.kubesphere.io/v1beta1",
			"kind":       "User",
			"spec":       obj{"email": bob + "@example.com", "password": password},
		})
		var b caller
		eventually(t, "he may log in", func(ctx context.Context) error {
			r, err := passwordGrant(ctx, product.URL, bob, password)
			if err == nil && r.code != http.StatusOK {
				err = fmt.Errorf("%d %s", r.code, r.body)
			}
			if err == nil {
				b = caller{product.URL, decode[tokenReply](t, r.body).Access}
			}
			return err
		})
		eventually(t, "the platform role is his", a.has(iam+"/users/"+bob, `"iam.kubesphere.io/globalrole":"platform-regular"`))
		eventually(t, "and listed so", a.has(iam+"/users?globalrole=platform-regular&limit=-1", bob))
		b.must(
			t,
			http.StatusOK,
			http.MethodPatch,
			"/apis/iam.kubesphere.io/v1beta1/users/"+bob,
			`[{"op":"remove","path":"/metadata/annotations/iam.kubesphere.io~1uninitialized"},{"op":"replace","path":"/spec/password","value":"Brandnew-1"}]`,
			"Content-Type: application/json-patch+json",
		)
	})
	t.Run("edit, disable and enable him", func(t *testing.T) {
		for _, state := range []string{"Disabled", "Active"} {
			eventually(t, state, func(ctx context.Context) error {
				r, err := a.do(ctx, http.MethodGet, iam+"/users/"+bob, nil)
				if err != nil {
					return err
				}
				u := decode[obj](t, r.body)
				status, _ := u["status"].(obj)
				if status == nil {
					status = obj{}
				}
				status["state"], u["status"] = state, status
				if r, err = a.do(ctx, http.MethodPut, iam+"/users/"+bob, u); err == nil && r.code != http.StatusOK {
					err = fmt.Errorf("%d %s", r.code, clip(r.body)) // 409: the controller was faster
				}
				return err
			})
			eventually(t, "it is told", a.has(iam+"/users/"+bob, `"state":"`+state+`"`))
		}
		r, err := passwordGrant(t.Context(), product.URL, bob, "Brandnew-1")
		if err != nil || r.code != http.StatusOK {
			t.Errorf("after all that his password is another: %d %s %v", r.code, clip(r.body), err)
		}
		a.must(t, http.StatusOK, http.MethodPut, iam+"/users/"+bob+"/password", obj{"password": "Another-11", "rePassword": "Another-11"})
		var b caller
		eventually(t, "he logs in with what the administrator chose", func(ctx context.Context) error {
			r, err := passwordGrant(ctx, product.URL, bob, "Another-11")
			if err == nil && r.code != http.StatusOK {
				err = fmt.Errorf("%d %s", r.code, clip(r.body))
			}
			if err == nil {
				b = caller{product.URL, decode[tokenReply](t, r.body).Access}
			}
			return err
		})
		own := iam + "/users/" + bob + "/password"
		b.must(t, http.StatusBadRequest, http.MethodPut, own, obj{"currentPassword": "Wrong-1111", "password": "My-own-111", "rePassword": "My-own-111"})
		b.must(t, http.StatusOK, http.MethodPut, own, obj{"currentPassword": "Another-11", "password": "My-own-111", "rePassword": "My-own-111"})
	})
	t.Run("create, edit and delete a platform role", func(t *testing.T) {
		body := obj{
			"apiVersion":               "iam.kubesphere.io/v1beta1",
			"kind":                     "GlobalRole",
			"rules":                    []any{},
			"metadata":                 obj{"name": role, "annotations": obj{"kubesphere.io/creator": "admin"}},
			"aggregationRoleTemplates": obj{"templateNames": []any{"global-view-users"}},
		}
		a.must(t, http.StatusOK, http.MethodPost, iam+"/globalroles", body)
		eventually(t, "its rules come from the template", a.has(iam+"/globalroles/"+role, "users/loginrecords"))
		eventually(t, "it is listed by its creator", a.has(iam+"/globalroles?annotation=kubesphere.io/creator&limit=10", role))
		edit(t, a, iam+"/globalroles/"+role, "global-view-workspaces")
		eventually(t, "its rules are others", a.has(iam+"/globalroles/"+role, "workspacetemplates"))
		a.must(t, http.StatusOK, http.MethodDelete, iam+"/globalroles/"+role, nil)
		eventually(t, "it is gone", a.is(http.StatusNotFound, http.MethodGet, iam+"/globalroles/"+role))
	})
	t.Run("edit a workspace", func(t *testing.T) {
		a.must(
			t,
			http.StatusOK,
			http.MethodPatch,
			ws+"/"+w,
			`[{"op":"add","path":"/metadata/annotations","value":{"kubesphere.io/alias-name":"Renamed"}},{"op":"add","path":"/spec","value":{"template":{"spec":{"manager":"`+bob+`"}},"placement":{"clusters":[{"name":"host"}]}}}]`,
			asMerge,
		)
		eventually(t, "the new name", a.has(ws+"/"+w, "Renamed"))
		eventually(t, "the new manager", a.has(iam+"/workspaces/"+w+"/workspacemembers", bob))
	})
	t.Run("invite, change and remove a member", func(t *testing.T) {
		members := iam + "/workspaces/" + w + "/workspacemembers"
		name := unique("guest")
		newUser(t, name)
		a.must(t, http.StatusOK, http.MethodPost, members, []any{obj{"username": name, "roleRef": w + "-viewer"}})
		eventually(t, "invited", a.has(members+"/"+name, w+"-viewer"))
		a.must(t, http.StatusOK, http.MethodPut, members+"/"+name, obj{"username": name, "roleRef": w + "-regular"})
		eventually(t, "changed", a.has(members+"/"+name, w+"-regular"))
		a.must(t, http.StatusOK, http.MethodDelete, members+"/"+name, nil)
		eventually(t, "removed", func(ctx context.Context) error {
			r, err := a.do(ctx, http.MethodGet, members+"?name="+url.QueryEscape(name), nil)
			if err == nil && len(decode[list](t, r.body).Items) > 0 {
				err = fmt.Errorf("%s", clip(r.body))
			}
			return err
		})
	})
	t.Run("create, edit and delete a workspace role", func(t *testing.T) {
		roles := iam + "/workspaces/" + w + "/workspaceroles"
		a.must(t, http.StatusOK, http.MethodPost, roles, obj{
			"apiVersion":               "iam.kubesphere.io/v1beta1",
			"kind":                     "WorkspaceRole",
			"rules":                    []any{},
			"metadata":                 obj{"name": w + "-custom", "annotations": obj{"kubesphere.io/creator": "admin"}},
			"aggregationRoleTemplates": obj{"templateNames": []any{"workspace-view-projects"}},
		})
		eventually(t, "its rules", a.has(roles+"/"+w+"-custom", `"rules":[{`))
		edit(t, a, roles+"/"+w+"-custom", "workspace-view-members")
		eventually(t, "its rules are others", a.has(roles+"/"+w+"-custom", `"workspacemembers"`))
		a.must(t, http.StatusOK, http.MethodDelete, roles+"/"+w+"-custom", nil)
	})
	t.Run("set a quota", func(t *testing.T) {
		quotas := "/clusters/host" + tenants + "/workspaces/" + w + "/resourcequotas"
		a.must(t, http.StatusNotFound, http.MethodGet, quotas+"/"+w, nil)
		body := obj{
			"apiVersion": "quota.kubesphere.io/v1alpha2", "kind": "ResourceQuota", "metadata": obj{"name": w},
			"spec": obj{"quota": obj{"hard": obj{"limits.cpu": "4", "requests.memory": "1Gi"}}},
		}
		a.must(t, http.StatusOK, http.MethodPost, quotas, body)
		a.must(t, http.StatusConflict, http.MethodPost, quotas, body)
		eventually(t, "it is there, and of this workspace", a.has(quotas+"/"+w, `"kubesphere.io/workspace":"`+w+`"`, `"limits.cpu":"4"`))
		eventually(t, "it is another", func(ctx context.Context) error {
			r, err := a.do(ctx, http.MethodGet, quotas+"/"+w, nil)
			if err != nil {
				return err
			}
			q := decode[obj](t, r.body)
			q["spec"] = obj{"quota": obj{"hard": obj{"limits.cpu": "6"}}}
			if r, err = a.do(ctx, http.MethodPut, quotas+"/"+w, q); err == nil && r.code != http.StatusOK {
				err = fmt.Errorf("%d %s", r.code, clip(r.body)) // 409: the controller was faster
			}
			return err
		})
		eventually(t, "and says so", a.has(quotas+"/"+w, `"limits.cpu":"6"`))
	})
	t.Run("isolate the network of a workspace", func(t *testing.T) {
		one := host + tenantAPI + "/workspaces/" + w
		a.must(t, http.StatusOK, http.MethodPatch, one, obj{"metadata": obj{"annotations": obj{"kubesphere.io/network-isolate": "enabled"}}}, asMerge)
		eventually(t, "it is isolated", a.has(one, `"kubesphere.io/network-isolate":"enabled"`))
	})
	t.Run("cordon a node", func(t *testing.T) {
		node := a.list(t, host+kapis+"/nodes?limit=1&page=1").names()[0]
		for _, to := range []any{true, nil} {
			a.must(t, http.StatusOK, http.MethodPatch, host+"/api/v1/nodes/"+node, obj{"spec": obj{"unschedulable": to}}, asMerge)
		}
	})
	t.Run("delete it all", func(t *testing.T) {
		a.must(t, http.StatusOK, http.MethodDelete, ws+"/"+w, obj{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
		a.must(t, http.StatusOK, http.MethodDelete, iam+"/users/"+bob, nil)
		eventually(t, "gone", func(ctx context.Context) error {
			for _, path := range []string{ws + "/" + w, iam + "/users/" + bob} {
				if err := a.is(http.StatusNotFound, http.MethodGet, path)(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// edit sends a role as it was read, with other templates; it tries again where a controller was faster.
func edit(t *testing.T, c caller, path string, templates ...string) {
	t.Helper()
	eventually(t, "edit "+path, func(ctx context.Context) error {
		r, err := c.do(ctx, http.MethodGet, path, nil)
		if err != nil {
			return err
		}
		role := decode[obj](t, r.body)
		role["aggregationRoleTemplates"] = obj{"templateNames": templates}
		if r, err = c.do(ctx, http.MethodPut, path, role); err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
}

// What the admin of a workspace does with the people and the roles of a project.
func TestTheConsoleRunsThePeopleOfAProject(t *testing.T) {
	w, name := newTenant(t, unique("people")), unique("mate")
	newUser(t, name)
	at := host + iamRoute + "/namespaces/" + w.namespace
	roles, members := at+"/roles", at+"/namespacemembers"
	w.must(t, http.StatusOK, http.MethodPost, roles, obj{
		"apiVersion":               "iam.kubesphere.io/v1beta1",
		"kind":                     "Role",
		"rules":                    []any{},
		"metadata":                 obj{"name": "custom", "annotations": obj{"kubesphere.io/creator": w.user}},
		"aggregationRoleTemplates": obj{"templateNames": []string{"namespace-view-configmaps"}},
	})
	eventually(t, "its rules", w.has(roles+"/custom", `"configmaps"`))
	edit(t, w.caller, roles+"/custom", "namespace-view-secrets")
	eventually(t, "its rules are others", w.has(roles+"/custom", `"secrets"`))

	eventually(t, "the built-in roles are there", w.is(http.StatusOK, http.MethodGet, roles+"/viewer"))
	w.must(t, http.StatusOK, http.MethodPost, members, []obj{{"username": name, "roleRef": "viewer"}})
	eventually(t, "invited", w.has(members+"?limit=-1&sortBy=createTime", name, `"iam.kubesphere.io/role":"viewer"`))
	w.must(t, http.StatusOK, http.MethodPut, members+"/"+name, obj{"username": name, "roleRef": "custom"})
	eventually(t, "changed", w.has(members+"?name="+name, `"iam.kubesphere.io/role":"custom"`))
	w.must(t, http.StatusOK, http.MethodDelete, members+"/"+name, nil)
	eventually(t, "removed", w.holds(members+"?name="+name))

	w.must(t, http.StatusOK, http.MethodDelete, roles+"/custom", nil)
	eventually(t, "the role is gone", w.is(http.StatusNotFound, http.MethodGet, roles+"/custom"))
	one := host + tenants + "/workspaces/" + w.workspace + "/namespaces/" + w.namespace
	w.must(t, http.StatusOK, http.MethodPatch, one, obj{"metadata": obj{"annotations": obj{"kubesphere.io/alias-name": "Ours"}}}, asMerge)
	eventually(t, "renamed", w.has(one, `"kubesphere.io/alias-name":"Ours"`))
	w.must(t, http.StatusOK, http.MethodDelete, one, obj{"kind": "DeleteOptions", "apiVersion": "v1"})
}
