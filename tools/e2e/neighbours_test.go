package e2e

import (
	"net/http"
	"testing"
	"time"
)

const systemNamespace = "kubesphere-system"

// neighbours are two workspaces, and the people around them.
type neighbours struct {
	// one is in the names of everything that is theirs, and the name of what a test makes for them.
	one string
	// a is the workspace of most of the people, b the other one.
	a, b      tenant
	everybody []asker
}

// asker is who asks. The name is what lists call him; user is whose things are his own.
type asker struct {
	caller
	name, user string
}

// newNeighbours makes the workspaces, and the people: who has what of a, the owner of b, and those who ask without a session.
func newNeighbours(t *testing.T, one string) *neighbours {
	t.Helper()
	w := &neighbours{one: one, a: newTenant(t, one+"-a"), b: newTenant(t, one+"-b")}
	a := admin(t)
	join := func(name, workspaceRole, projectRole string) caller {
		c := newUser(t, name)
		a.must(
			t,
			http.StatusOK,
			http.MethodPost,
			iamRoutes+"/workspaces/"+w.a.workspace+"/workspacemembers",
			[]any{obj{"username": name, "roleRef": w.a.workspace + "-" + workspaceRole}},
		)
		a.must(t, http.StatusOK, http.MethodPost, iamRoutes+"/namespaces/"+w.a.namespace+"/namespacemembers", []any{obj{"username": name, "roleRef": projectRole}})
		return c
	}
	core := "/api/v1/namespaces/" + w.a.namespace
	a.create(t, core+"/serviceaccounts", obj{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": obj{"name": "robot"}})
	bind(t, w.a.namespace, "operator", obj{"kind": "ServiceAccount", "name": "robot", "namespace": w.a.namespace})
	robot := decode[struct{ Status struct{ Token string } }](t, a.must(t, http.StatusCreated, http.MethodPost, core+"/serviceaccounts/robot/token",
		obj{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": obj{}}).body).Status.Token
	key := decode[struct{ Token string }](t, w.a.must(t, http.StatusOK, http.MethodPost, iamRoutes+"/users/"+w.a.user+"/apikeys",
		obj{"currentPassword": password, "expiresAt": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}).body).Token
	viewer, editor, nobody := w.one+"-viewer", w.one+"-editor", w.one+"-nobody"
	w.everybody = []asker{
		{anonymous(), "anonymous", ""},
		{newUser(t, nobody), "nobody", nobody},
		{join(viewer, "viewer", "viewer"), "viewer", viewer},
		{join(editor, "regular", "operator"), "editor", editor},
		{w.a.caller, "owner", w.a.user},
		{w.b.caller, "other", w.b.user},
		{caller{product.URL, robot}, "robot", w.a.user},
		{caller{product.URL, key}, "key", w.a.user},
		{a, "admin", "admin"},
	}
	for _, p := range w.everybody[2:7] {
		where := w.a.namespace
		if p.name == "other" {
			where = w.b.namespace
		}
		eventually(t, "kube-apiserver knows the "+p.name, p.is(http.StatusOK, http.MethodGet, "/apis/apps/v1/namespaces/"+where+"/deployments"))
	}
	return w
}
