package fleet

import (
	"net/http"
	"strings"
	"testing"
)

// S67, F26: who is removed from a workspace on the hub keeps nothing in its namespaces in members, and nobody makes roles or members of it there.
func TestWhoIsRemovedOnTheHubIsRemovedInMembers(t *testing.T) {
	const of, member = "/kapis/iam.kubesphere.io/v1beta1", "/workspaces/leaving/workspacemembers"
	a, manager, leaver, other := admin(t), newUser(t, "leaving-manager"), newUser(t, "leaver"), newUser(t, "leaving-other")
	a.must(t, http.StatusOK, http.MethodPost, workspace, named("WorkspaceTemplate", "leaving", obj{"spec": obj{
		"placement": obj{"clusters": []obj{{"name": dialer}}}, "template": obj{"spec": obj{"manager": manager.name}}}}))
	defer a.must(t, http.StatusOK, http.MethodDelete, workspace+"/leaving", nil)
	there := "/clusters/" + dialer
	manager.becomes(t, patience, http.StatusOK, http.MethodPost, there+workspace+"/leaving/namespaces", obj{"apiVersion": "v1", "kind": "Namespace",
		"metadata": obj{"name": "leaving-ns", "labels": obj{"kubesphere.io/managed": "true"}}})
	manager.becomes(t, patience, http.StatusOK, http.MethodPost, of+member, []obj{{"username": leaver.name, "roleRef": "leaving-viewer"}})
	// ks-controller-manager makes the roles of the namespace.
	manager.becomes(t, patience, http.StatusOK, http.MethodPost, there+of+"/namespaces/leaving-ns/namespacemembers",
		[]obj{{"username": leaver.name, "roleRef": "operator"}})
	body := manager.must(t, http.StatusForbidden, http.MethodPost, there+of+member, []obj{{"username": other.name, "roleRef": "leaving-viewer"}})
	if !strings.Contains(body, "the hub of the fleet keeps the workspace") {
		t.Errorf("who makes a member there is told %s", body)
	}
	pods := there + "/api/v1/namespaces/leaving-ns/pods"
	leaver.becomes(t, patience, http.StatusOK, http.MethodGet, pods, nil)
	body = manager.must(t, http.StatusOK, http.MethodDelete, of+member+"/"+leaver.name, nil)
	if !strings.Contains(body, `"cluster":"`+dialer+`"`) {
		t.Errorf("what was removed is %s", body)
	}
	text, err := at(t, dialer, "get", "rolebindings.iam.kubesphere.io", "-n", "leaving-ns", "-o", "json")
	if err != nil || strings.Contains(text, leaver.name) {
		t.Errorf("they are still bound there: %s, %v", text, err)
	}
	leaver.becomes(t, patience, http.StatusForbidden, http.MethodGet, pods, nil)
}
