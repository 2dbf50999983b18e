package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// managesUsers is the role of those who manage users, roles and groups, and hold nothing else.
var managesUsers = []rule{{Groups: []string{"iam.kubesphere.io"}, Resources: []string{
	"users", "groups", "groupbindings", "globalroles", "globalrolebindings", "roles", "rolebindings", "workspaceroles", "builtinroles", "roletemplates",
}, Verbs: []string{"get", "list", "create", "update", "patch", "delete", "deletecollection"}}}

// goneOwner is an owner that is not there: the garbage collector deletes what has no other.
var goneOwner = obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "GlobalRole", "name": "not-there", "uid": "00000000-0000-4000-8000-000000000000"}

// The last administrator stays, whoever deletes him, his binding or the role, in whichever way: also who holds everything, by another role.
func TestTheLastAdministratorStays(t *testing.T) { // S72
	proves(t, "S72")
	a, name := admin(t), unique("equal")
	u := withRole(t, name, obj{"rules": []obj{
		{"apiGroups": []string{"*"}, "resources": []string{"*"}, "verbs": []string{"*"}}, {"nonResourceURLs": []string{"*"}, "verbs": []string{"*"}},
	}})
	plain := unique("plain")
	newUser(t, plain)
	bindings := strings.Fields(bindingsOfRole(t, "platform-admin"))
	if len(bindings) == 0 {
		t.Fatal("nobody administers the platform")
	}
	merge := "Content-Type: application/merge-patch+json"
	for claim, do := range ways(u, name) {
		eventually(t, claim+" he holds everything", func(context.Context) error {
			if code, body := do(t, http.MethodPatch, "/globalroles/"+name, `{"metadata":{"annotations":{"a":"`+unique("x")+`"}}}`, merge); code != http.StatusOK {
				return fmt.Errorf("%d %s", code, clip(body))
			}
			return nil
		})
		type try struct{ method, path, body, header string }
		tries := []try{
			{http.MethodDelete, "/users/admin", "", ""},
			{http.MethodDelete, "/users?fieldSelector=metadata.name%3Dadmin", "", ""},
			{http.MethodDelete, "/globalroles/platform-admin", "", ""},
			{http.MethodDelete, "/globalroles?fieldSelector=metadata.name%3Dplatform-admin", "", ""},
			{http.MethodPatch, "/globalroles/platform-admin", `{"rules":[]}`, merge},
			{http.MethodPatch, "/globalroles/platform-admin", `{"metadata":{"annotations":{"iam.kubesphere.io/cel-condition":"false"}}}`, merge},
			{http.MethodPatch, "/globalroles/platform-admin", `{"metadata":{"ownerReferences":[` + encode(t, goneOwner) + `]}}`, merge},
		}
		if claim != "routes" { // whose PATCH of a user takes no owners, and says nothing of a state that it does not know
			tries = append(tries, try{http.MethodPatch, "/users/admin", `{"metadata":{"ownerReferences":[` + encode(t, goneOwner) + `]}}`, merge},
				try{http.MethodPatch, "/users/admin/status", `{"status":{"state":"Disabled"}}`, merge})
		} else {
			tries = append(tries, try{http.MethodPatch, "/users/admin", `{"status":{"state":"Disabled"}}`, merge})
		}
		// All but one may go: that is the last, and its end in every form is refused. The others are of other tests, and stay.
		if len(bindings) == 1 {
			one := "/globalrolebindings/" + bindings[0]
			tries = append(tries, try{http.MethodDelete, one, "", ""},
				try{http.MethodDelete, "/globalrolebindings?fieldSelector=metadata.name%3D" + bindings[0], "", ""},
				try{http.MethodPatch, one, `{"subjects":[]}`, merge},
				try{http.MethodPatch, one, `{"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"nobody"}]}`, merge},
				try{http.MethodPatch, one, `{"metadata":{"ownerReferences":[` + encode(t, goneOwner) + `]}}`, merge})
		}
		for _, c := range tries {
			headers := []string{}
			if c.header != "" {
				headers = append(headers, c.header)
			}
			code, body := do(t, c.method, c.path, c.body, headers...)
			noRoute := claim == "routes" && strings.Contains(c.path, "?") && (code == http.StatusNotFound || code == http.StatusMethodNotAllowed)
			if code != http.StatusConflict && !noRoute {
				t.Errorf("%s: %s %s %s: %d %s", claim, c.method, c.path, c.body, code, clip(body))
			}
		}
	}
	a.must(t, http.StatusOK, http.MethodGet, iamAPI+"/users/admin", nil)
	if again := strings.Fields(bindingsOfRole(t, "platform-admin")); len(again) != len(bindings) {
		t.Errorf("bindings were %q, are %q", bindings, again)
	}
	u.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/users/"+plain, nil)
}

// bindingsOfRole names the bindings of a GlobalRole.
func bindingsOfRole(t *testing.T, role string) string {
	t.Helper()
	var out []string
	list := decode[struct {
		Items []struct {
			Metadata struct{ Name string }
			RoleRef  struct{ Name string }
		}
	}](t, stored(t, iamAPI+"/globalrolebindings"))
	for _, b := range list.Items {
		if b.RoleRef.Name == role {
			out = append(out, b.Metadata.Name)
		}
	}
	return strings.Join(out, " ")
}

// Who manages users ends nobody who is above him, and makes nobody else end him.
func TestADeletionIsJudgedLikeAnyOtherWrite(t *testing.T) { // S72
	proves(t, "S72")
	a, name, chief, plain, group := admin(t), unique("manager"), unique("chief"), unique("plain"), unique("group")
	u := withRole(t, name, obj{"rules": managesUsers})
	newUser(t, chief)
	newUser(t, plain)
	a.create(t, iamAPI+"/globalrolebindings", globalBinding(chief, "platform-admin", chief))
	a.create(t, iamAPI+"/groups", iamObject("Group", group, nil))
	bound := globalBinding(group, "platform-admin")
	bound["roleRef"], bound["kind"] = obj{"apiGroup": "iam.kubesphere.io", "kind": "ClusterRole", "name": "cluster-admin"}, "ClusterRoleBinding"
	bound["subjects"] = []obj{{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}}
	a.create(t, iamAPI+"/clusterrolebindings", bound)
	eventually(t, "the chief is known to hold more", a.has(iamAPI+"/users/"+chief, `"iam.kubesphere.io/globalrole":"platform-admin"`))
	merge := "Content-Type: application/merge-patch+json"
	for claim, do := range ways(u, name) {
		if claim == pastKS {
			continue // there nobody but who holds everything has a right to users
		}
		eventually(t, claim+" he manages users", func(context.Context) error {
			if code, body := do(t, http.MethodPatch, "/users/"+plain, `{"metadata":{"annotations":{"a":"`+unique("x")+`"}}}`, merge); code != http.StatusOK {
				return fmt.Errorf("%d %s", code, clip(body))
			}
			return nil
		})
		eventually(t, claim+" it is known what the chief and the group have", func(context.Context) error {
			for path, reason := range map[string]string{"/users/" + chief: "", "/groups/" + group: "clusterrolebindings"} {
				if code, body := do(t, http.MethodDelete, path+"?dryRun=All", ""); code != http.StatusForbidden || !strings.Contains(body, reason) {
					return fmt.Errorf("%s: %d %s", path, code, clip(body))
				}
			}
			return nil
		})
		for _, c := range []struct{ method, path, body, header, reason string }{
			{http.MethodDelete, "/users/" + chief, "", "", ""},
			{http.MethodDelete, "/users/" + name, "", "", "own account"},
			{http.MethodDelete, "/groups/" + group, "", "", "clusterrolebindings"},
			{http.MethodDelete, "/groups?fieldSelector=metadata.name%3D" + group, "", "", "clusterrolebindings"},
		} {
			code, body := do(t, c.method, c.path, c.body)
			if claim == "routes" && strings.Contains(c.path, "?") && code == http.StatusNotFound {
				continue // there is no such route
			}
			if code != http.StatusForbidden || !strings.Contains(body, c.reason) {
				t.Errorf("%s: %s %s: %d %s", claim, c.method, c.path, code, clip(body))
			}
		}
	}
	u.must(t, http.StatusForbidden, http.MethodDelete, iamAPI+"/users?fieldSelector=metadata.name%3D"+chief, nil)
	owned := `{"metadata":{"ownerReferences":[` + encode(t, goneOwner) + `]}}`
	u.must(t, http.StatusForbidden, http.MethodPatch, iamAPI+"/users/"+chief, owned, merge)
	a.must(t, http.StatusOK, http.MethodGet, iamAPI+"/users/"+chief, nil)
	a.must(t, http.StatusOK, http.MethodGet, iamAPI+"/groups/"+group, nil)

	// Who may write and not delete gives nothing an owner.
	writer, role := unique("writer"), unique("kept")
	w := withRole(
		t,
		writer,
		obj{"rules": []rule{{Groups: []string{"iam.kubesphere.io"}, Resources: []string{"globalroles"}, Verbs: []string{"get", "create", "update", "patch"}}}},
	)
	a.create(t, iamAPI+"/globalroles", iamObject("GlobalRole", role, nil))
	for claim, do := range ways(w, writer) {
		eventually(t, claim+" he writes roles", func(context.Context) error {
			if code, body := do(t, http.MethodPatch, "/globalroles/"+role, `{"metadata":{"annotations":{"a":"`+unique("x")+`"}}}`, merge); code != http.StatusOK {
				return fmt.Errorf("%d %s", code, clip(body))
			}
			return nil
		})
		fresh := iamObject("GlobalRole", unique("fresh"), nil)
		fresh["metadata"].(obj)["ownerReferences"] = []obj{goneOwner}
		for _, c := range []struct{ method, path, body, header string }{
			{http.MethodPatch, "/globalroles/" + role, owned, merge},
			{http.MethodPost, "/globalroles", encode(t, fresh), "Content-Type: application/json"},
		} {
			if code, body := do(t, c.method, c.path, c.body, c.header); code != http.StatusForbidden || !strings.Contains(body, "ownerReferences") {
				t.Errorf("%s: %s %s: %d %s", claim, c.method, c.path, code, clip(body))
			}
		}
	}
	a.must(t, http.StatusOK, http.MethodGet, iamAPI+"/globalroles/"+role, nil)
}

// A namespace with roles and bindings of ours ends while nobody answers the webhooks, and so does what the garbage collector takes.
func TestANamespaceEndsWhileTheWebhooksAreAway(t *testing.T) { // S72
	proves(t, "S72")
	a, ns := admin(t), newNamespace(t)
	role(t, ns, "extra", rule{Groups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}})
	back := stopWebhooks(t)
	defer back()
	root := kubeClient(t).RESTClient()
	if err := root.Delete().AbsPath("/api/v1/namespaces/" + ns).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace is gone", a.is(http.StatusNotFound, http.MethodGet, "/api/v1/namespaces/"+ns))
}
