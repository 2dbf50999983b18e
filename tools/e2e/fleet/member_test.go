package fleet

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// F15, F24: members of a cluster of the fleet, and its roles, are those of that cluster, and are given by the hub to users whom it has never heard of: they
// may enter it, as what their role says, and no longer when it is taken away.
func TestAClusterOfTheFleetHasMembersAndRoles(t *testing.T) {
	a := admin(t)
	u := newUser(t, "cluster-member")
	for _, member := range members {
		in, nodes := "/clusters/"+member+"/kapis/iam.kubesphere.io/v1beta1", "/clusters/"+member+"/kapis/resources.kubesphere.io/v1alpha3/nodes"
		u.must(t, http.StatusForbidden, http.MethodGet, nodes, nil)
		a.becomes(t, patience, http.StatusOK, http.MethodPost, in+"/clustermembers", []obj{{"username": u.name, "roleRef": "cluster-viewer"}})
		u.becomes(t, patience, http.StatusOK, http.MethodGet, nodes, nil)
		u.must(t, http.StatusForbidden, http.MethodDelete, "/clusters/"+member+"/api/v1/nodes/none", nil)
		if text := a.must(t, http.StatusOK, http.MethodGet, in+"/clusterroles", nil); !strings.Contains(text, `"cluster-admin"`) {
			t.Errorf("the roles of %s are %s", member, text)
		}
		eventually(t, "they are listed, once the hub has told "+member+" of them", func(ctx context.Context) error {
			resp, err := a.ask(ctx, http.MethodGet, in+"/clustermembers", nil)
			if err == nil && !strings.Contains(string(resp.Body), `"`+u.name+`"`) {
				err = fmt.Errorf("the members are %s", resp.Body)
			}
			return err
		})
		a.must(t, http.StatusOK, http.MethodDelete, in+"/clustermembers/"+u.name, nil)
		u.becomes(t, patience, http.StatusForbidden, http.MethodGet, nodes, nil)
	}
	eventually(t, "nothing is left of them", func(context.Context) error {
		for _, member := range members {
			out, err := at(t, member, "get", "clusterrolebindings.iam.kubesphere.io", "-o", "name")
			if err != nil {
				return err
			}
			if strings.Contains(out, u.name) {
				return fmt.Errorf("%s has %s", member, out)
			}
		}
		return nil
	})
}

// S6, F17: names that a binding in a member has are nobody's to take at the hub, as a user's or as a Group's, at /kapis and at /apis.
func TestANameThatAMemberBindsIsTaken(t *testing.T) {
	a, clerk := admin(t), newUser(t, "names-clerk")
	a.must(t, http.StatusCreated, http.MethodPost, iam+"/globalroles", named("GlobalRole", "names-clerk", obj{"rules": []obj{
		{"apiGroups": []string{"iam.kubesphere.io"}, "resources": []string{"users", "groups"}, "verbs": []string{"get", "list", "create", "update", "patch"}}}}))
	a.must(t, http.StatusCreated, http.MethodPost, iam+"/globalrolebindings", named("GlobalRoleBinding", "names-clerk", obj{
		"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": "names-clerk"},
		"subjects": []obj{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": clerk.name}}}))
	t.Cleanup(func() {
		for _, kind := range []string{"globalrolebindings", "globalroles"} {
			_, _ = a.ask(context.Background(), http.MethodDelete, iam+"/"+kind+"/names-clerk", nil)
		}
	})
	bindings := "/clusters/" + direct + "/apis/iam.kubesphere.io/v1beta1/clusterrolebindings"
	group, ghost := named("Group", "names-sre", nil), named("User", "names-ghost", obj{"spec": obj{"email": "names-ghost@example.com", "password": password}})
	clerk.becomes(t, patience, http.StatusCreated, http.MethodPost, iam+"/groups?dryRun=All", group)
	a.must(t, http.StatusCreated, http.MethodPost, bindings, named("ClusterRoleBinding", "names-bound", obj{
		"roleRef": obj{"apiGroup": "iam.kubesphere.io", "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": []obj{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "names-ghost"},
			{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "names-sre"}}}))
	t.Cleanup(func() { _, _ = a.ask(context.Background(), http.MethodDelete, bindings+"/names-bound", nil) })
	clerk.becomes(t, patience, http.StatusForbidden, http.MethodPost, iam+"/groups?dryRun=All", group)
	for _, at := range []string{iam, "/kapis/iam.kubesphere.io/v1beta1"} {
		clerk.must(t, http.StatusForbidden, http.MethodPost, at+"/groups", group)
		clerk.must(t, http.StatusForbidden, http.MethodPost, at+"/users", ghost)
	}
	a.must(t, http.StatusCreated, http.MethodPost, iam+"/groups?dryRun=All", group)
}
