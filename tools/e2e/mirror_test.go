package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
)

const (
	nativeRBAC = "rbac.authorization.k8s.io"
)

// natively asks kube-apiserver's own RBAC whether somebody may do something, with a kubeconfig of his own.
func natively(user, verb, group, resource, namespace, name string) func(context.Context, *testing.T) (bool, error) {
	return func(ctx context.Context, t *testing.T) (bool, error) {
		r, err := admin(t).do(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", obj{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": obj{
				"user": user, "groups": []string{"system:authenticated"},
				"resourceAttributes": obj{"verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name},
			}})
		if err != nil || r.code != http.StatusCreated {
			return false, fmt.Errorf("%d %s %w", r.code, clip(r.body), err)
		}
		return decode[struct{ Status struct{ Allowed bool } }](t, r.body).Status.Allowed, nil
	}
}

// workspaceRole makes a workspace with one role in it, binds a new user to it, and returns the workspace and the user.
func workspaceRole(t *testing.T, rules ...rule) (ws, name string, u caller) {
	t.Helper()
	a := admin(t)
	ws, name = unique("ws"), unique("wsmember")
	u = newUser(t, name)
	a.create(t, tenantAPI+"/workspaces", obj{"apiVersion": "tenant.kubesphere.io/v1beta1", "kind": "Workspace", "metadata": obj{"name": ws}})
	a.create(t, iamAPI+"/workspaceroles", obj{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceRole", "rules": rules,
		"metadata": obj{"name": ws + "-role", "labels": obj{workspaceLabel: ws}},
	})
	a.create(t, iamAPI+"/workspacerolebindings", obj{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceRoleBinding",
		"metadata": obj{"name": ws + "-binding", "labels": obj{workspaceLabel: ws}},
		"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": "WorkspaceRole", "name": ws + "-role"},
		"subjects": []any{obj{"kind": "User", "name": name, "apiGroup": nativeRBAC}},
	})
	return ws, name, u
}

// S6: who manages the roles of a project by the rule of an older installation, all verbs on the roles of every group, gives himself
// nothing that he does not hold: not through /apis either.
func TestS6AManagerOfRolesGainsNothingByNativeRoles(t *testing.T) {
	proves(t, "S6")
	ns, name := newNamespace(t), unique("rolemanager")
	u := newUser(t, name)
	role(t, ns, "manager", rule{Groups: []string{"*"}, Resources: []string{"roles", "rolebindings", "users", "serviceaccounts"}, Verbs: []string{"*"}})
	bind(t, ns, "manager", map[string]any{"kind": "User", "name": name})
	native := "/apis/" + nativeRBAC + "/v1/namespaces/" + ns
	roleOf := func(name, resource string) obj {
		return obj{
			"apiVersion": nativeRBAC + "/v1",
			"kind":       "Role",
			"metadata":   obj{"name": name},
			"rules":      []rule{{[]string{""}, []string{resource}, []string{"get", "list"}}},
		}
	}
	eventually(t, "he manages native roles", u.is(http.StatusOK, http.MethodGet, native+"/roles"))
	eventually(t, "and writes what he holds", func(ctx context.Context) error {
		r, err := u.do(ctx, http.MethodPost, native+"/roles", roleOf("mine", "serviceaccounts"))
		if err == nil && r.code != http.StatusCreated && r.code != http.StatusConflict {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	u.must(t, http.StatusForbidden, http.MethodPost, native+"/roles", roleOf("more", "secrets"))
	u.must(t, http.StatusForbidden, http.MethodPatch, native+"/roles/mine", `{"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]}`, asMerge)
	u.must(t, http.StatusForbidden, http.MethodPost, native+"/rolebindings", obj{
		"apiVersion": nativeRBAC + "/v1", "kind": "RoleBinding", "metadata": obj{"name": "more"},
		"roleRef":  obj{"apiGroup": nativeRBAC, "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": []any{obj{"kind": "User", "name": name, "apiGroup": nativeRBAC}},
	})
	u.must(t, http.StatusForbidden, http.MethodGet, "/api/v1/namespaces/"+ns+"/secrets", nil)
	for _, c := range []struct {
		verb, group, resource string
		want                  bool
	}{
		{"create", nativeRBAC, "roles", true}, {"escalate", nativeRBAC, "roles", false}, {"bind", nativeRBAC, "roles", false},
		{"update", "", "serviceaccounts", true}, {"impersonate", "", "serviceaccounts", false}, {"escalate", "iam.kubesphere.io", "roles", false},
	} {
		if got, err := natively(name, c.verb, c.group, c.resource, ns, "x")(t.Context(), t); err != nil || got != c.want {
			t.Errorf("%s %s/%s: %t %v", c.verb, c.group, c.resource, got, err)
		}
	}
}

func TestS6AManagerOfUsersIsNobodyElse(t *testing.T) {
	proves(t, "S6")
	a, name := admin(t), unique("usermanager")
	newUser(t, name)
	a.create(t, iamAPI+"/globalroles", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "GlobalRole", "metadata": obj{"name": name},
		"rules": []rule{{[]string{"*"}, []string{"users", "users/password", "users/loginrecords", "loginrecords"}, []string{"*"}}}})
	a.create(t, iamAPI+"/globalrolebindings", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "GlobalRoleBinding", "metadata": obj{"name": name},
		"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": name},
		"subjects": []any{obj{"kind": "User", "name": name, "apiGroup": nativeRBAC}}})
	eventually(t, "the rights are mirrored", func(ctx context.Context) error {
		if ok, err := natively(name, "delete", "iam.kubesphere.io", "loginrecords", "", "x")(ctx, t); err != nil || !ok {
			return fmt.Errorf("%t %w", ok, err)
		}
		return nil
	})
	for _, c := range [][3]string{{"delete", "iam.kubesphere.io", "users"}, {"impersonate", "", "users"},
		{"impersonate:user-info", "authentication.k8s.io", "users"}, {"create", "iam.kubesphere.io", "globalrolebindings"}} {
		if ok, err := natively(name, c[0], c[1], c[2], "", "")(t.Context(), t); err != nil || ok {
			t.Errorf("%v: %t %v", c, ok, err)
		}
	}
}

func TestAMemberReadsHisWorkspaceAtKubernetesToo(t *testing.T) { // the console's page of a workspace
	ws, name, u := workspaceRole(t, rule{[]string{"tenant.kubesphere.io"}, []string{"workspaces"}, []string{"get", "list", "patch"}})
	other := unique("other")
	admin(t).create(t, tenantAPI+"/workspaces", obj{"apiVersion": "tenant.kubesphere.io/v1beta1", "kind": "Workspace", "metadata": obj{"name": other}})
	eventually(t, "he reads it", u.is(http.StatusOK, http.MethodGet, tenantAPI+"/workspaces/"+ws))
	u.must(t, http.StatusOK, http.MethodGet, "/clusters/host"+tenantAPI+"/workspaces/"+ws, nil)
	u.must(t, http.StatusOK, http.MethodPatch, tenantAPI+"/workspaces/"+ws, `{"metadata":{"annotations":{"kubesphere.io/network-isolate":"enabled"}}}`, asMerge)
	u.must(t, http.StatusForbidden, http.MethodDelete, tenantAPI+"/workspaces/"+ws, nil)
	for _, path := range []string{"/workspaces/" + other, "/workspaces", "/workspaces?watch=true&fieldSelector=metadata.name=" + other} {
		u.must(t, http.StatusForbidden, http.MethodGet, tenantAPI+path, nil)
	}
	u.must(t, http.StatusForbidden, http.MethodPatch, tenantAPI+"/workspaces/"+other, `{"metadata":{"annotations":{"a":"b"}}}`, asMerge)
	if ok, err := natively(name, "get", "tenant.kubesphere.io", "workspaces", "", ws)(t.Context(), t); err != nil || ok {
		t.Errorf("with a kubeconfig of his own: %t %v", ok, err)
	}
}

func TestS6WhatAWorkspaceHasOutsideOfNamespacesIsWrittenThroughItOnly(t *testing.T) {
	proves(t, "S6")
	ws, name, u := workspaceRole(t, rule{[]string{"iam.kubesphere.io"}, []string{"groups", "workspacerolebindings"}, []string{"get", "create", "patch", "delete"}})
	theirs, _, _ := workspaceRole(t, rule{[]string{""}, []string{"pods"}, []string{"list"}})
	in := func(w, kind string) string {
		return "/kapis/iam.kubesphere.io/v1beta1/workspaces/" + w + "/" + kind
	}
	group := func(name string) obj {
		return obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "Group", "metadata": obj{"name": name}}
	}
	mine := unique("group")
	eventually(t, "he makes a group in his workspace", func(ctx context.Context) error {
		r, err := u.do(ctx, http.MethodPost, in(ws, "groups"), group(mine))
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	u.must(t, http.StatusOK, http.MethodPatch, in(ws, "groups")+"/"+mine, `{"metadata":{"annotations":{"a":"b"}}}`, asMerge)
	u.must(t, http.StatusForbidden, http.MethodPost, in(theirs, "groups"), group(unique("group")))
	u.must(t, http.StatusForbidden, http.MethodPost, iamAPI+"/groups", group(unique("group")))
	u.must(t, http.StatusForbidden, http.MethodDelete, iamAPI+"/groups/"+mine, nil)
	u.must(t, http.StatusForbidden, http.MethodDelete, iamAPI+"/workspacerolebindings/"+theirs+"-binding", nil)
	u.must(t, http.StatusNotFound, http.MethodDelete, in(ws, "workspacerolebindings")+"/"+theirs+"-binding", nil)
	u.must(t, http.StatusOK, http.MethodDelete, in(ws, "groups")+"/"+mine, nil)
	if ok, err := natively(name, "create", "iam.kubesphere.io", "groups", "", "")(t.Context(), t); err != nil || ok {
		t.Errorf("with a kubeconfig of his own: %t %v", ok, err)
	}
	u.must(t, http.StatusOK, http.MethodDelete, in(ws, "workspacerolebindings")+"/"+ws+"-binding", nil)
	within(t, revocation, "and is out", u.is(http.StatusForbidden, http.MethodGet, in(ws, "groups")))
}
