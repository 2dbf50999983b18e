package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const clusterLabels = "/kapis/cluster.kubesphere.io/v1alpha1"

// bindGlobal gives a user a GlobalRole that is shipped.
func bindGlobal(t *testing.T, user, role string) {
	t.Helper()
	admin(t).create(t, iamAPI+"/globalrolebindings", obj{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "GlobalRoleBinding", "metadata": obj{"name": user + "-" + role},
		"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": role},
		"subjects": []any{obj{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}},
	})
}

// sends returns whether a request with a body is answered with 200.
func (c caller) sends(method, path string, body any) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := c.do(ctx, method, path, body)
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%s %s = %d %s", method, path, r.code, clip(r.body))
		}
		return err
	}
}

// The console's request that creates a workspace.
func consoleWorkspace(name, manager string, clusters ...any) obj {
	annotations := obj{"kubesphere.io/creator": manager}
	return obj{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceTemplate", "metadata": obj{"name": name, "annotations": annotations},
		"spec": obj{"template": obj{"spec": obj{"manager": manager}, "metadata": obj{"annotations": annotations}}, "placement": obj{"clusters": clusters}},
	}
}

// D3, S9: who may create workspaces manages what they created, in whichever cluster it is; nobody else does, and nothing of it outlives it.
func TestD3TheCreatorOfAWorkspaceInNoClusterManagesIt(t *testing.T) {
	a, carl, guest, eve, ws := admin(t), unique("carl"), unique("guest"), unique("eve"), unique("nowhere")
	c, g, e := newUser(t, carl), newUser(t, guest), newUser(t, eve)
	bindGlobal(t, carl, "platform-self-provisioner")
	bindGlobal(t, eve, "platform-self-provisioner")
	one := tenants + "/workspacetemplates/" + ws
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, one, obj{}) })
	for name, u := range map[string]caller{carl: c, eve: e} {
		eventually(t, "they may create workspaces", u.sends(http.MethodPost, tenants+"/workspacetemplates?dryRun=All", consoleWorkspace(ws, name)))
	}
	// What the form offers is taken, and nothing else is offered.
	offered := decode[list](t, c.must(t, http.StatusOK, http.MethodGet,
		tenants+"/clusters?labelSelector=cluster.kubesphere.io/visibility!=public&limit=-1", nil).body)
	if len(offered.Items) > 0 {
		t.Errorf("the form offers %v", offered.Items)
	}
	c.must(t, http.StatusForbidden, http.MethodPost, tenants+"/workspacetemplates", consoleWorkspace(ws, carl, obj{"name": "host"}))
	c.must(t, http.StatusForbidden, http.MethodPost, tenants+"/workspacetemplates", consoleWorkspace(ws, "admin"))
	c.must(t, http.StatusOK, http.MethodPost, tenants+"/workspacetemplates", consoleWorkspace(ws, carl))
	eventually(t, "its manager sees it", c.is(http.StatusOK, http.MethodGet, one))
	eventually(t, "in the list", c.has(tenants+"/workspacetemplates?limit=10", ws))
	eventually(t, "in no cluster", c.has(tenants+"/workspaces/"+ws+"/clusters?sortBy=createTime&limit=10&page=1", `"totalItems":0`))
	eventually(t, "with its roles", c.has(iamRoute+"/workspaces/"+ws+"/workspaceroles?annotation=kubesphere.io/creator&limit=-1", ws+"-admin", ws+"-viewer"))
	eventually(t, "and menus", c.has(iamRoute+"/users/"+carl+"/roletemplates?scope=workspace&workspace="+ws, "role-template-rules"))
	members := iamRoute + "/workspaces/" + ws + "/workspacemembers"
	eventually(t, "a guest is invited", c.sends(http.MethodPost, members, []any{obj{"username": guest, "roleRef": ws + "-viewer"}}))
	eventually(t, "the guest sees it", g.is(http.StatusOK, http.MethodGet, one))
	for _, r := range []struct {
		u      caller
		method string
		path   string
		body   any
	}{
		{e, http.MethodGet, one, nil},
		{e, http.MethodPost, members, []any{obj{"username": eve, "roleRef": ws + "-admin"}}},
		{e, http.MethodDelete, one, obj{}},
		{e, http.MethodPost, tenants + "/workspacetemplates", consoleWorkspace(ws, eve)},
		{g, http.MethodPost, members, []any{obj{"username": eve, "roleRef": ws + "-admin"}}},
		{g, http.MethodDelete, one, obj{}},
	} {
		if got, err := r.u.do(t.Context(), r.method, r.path, r.body); err != nil || got.code != http.StatusForbidden && got.code != http.StatusConflict {
			t.Errorf("%s %s: %d %s %v", r.method, r.path, got.code, clip(got.body), err)
		}
	}
	eventually(t, "its manager deletes it", c.sends(http.MethodDelete, one, obj{"kind": "DeleteOptions", "apiVersion": "v1"}))
	eventually(t, "the manager has no right in it any more", c.is(http.StatusForbidden, http.MethodGet, one))
	eventually(t, "another may take the name", e.sends(http.MethodPost, tenants+"/workspacetemplates", consoleWorkspace(ws, eve)))
	eventually(t, "and manages it", e.is(http.StatusOK, http.MethodGet, one))
	for _, u := range []caller{c, g} {
		u.must(t, http.StatusForbidden, http.MethodGet, one, nil)
	}
}

// D4: the page of clusters asks for their labels as every user; who manages clusters writes them, nobody else does.
func TestD4LabelsOfClusters(t *testing.T) {
	a, name := admin(t), unique("reader")
	u := newUser(t, name)
	value := unique("live")
	r := a.must(t, http.StatusOK, http.MethodPost, clusterLabels+"/labels", []any{obj{"key": "env", "value": value}})
	made := decode[[]struct {
		Metadata struct{ Name string } `json:"metadata"`
	}](t, r.body)
	if len(made) != 1 {
		t.Fatalf("%s", clip(r.body))
	}
	id := made[0].Metadata.Name
	t.Cleanup(func() {
		_, _ = a.do(context.Background(), http.MethodDelete, "/apis/cluster.kubesphere.io/v1alpha1/labels/"+id, nil)
	})
	eventually(t, "every user reads them by key", u.has(clusterLabels+"/labels", `"env":[`, id, value))
	for _, path := range []string{"/apis/cluster.kubesphere.io/v1alpha1/labels", "/kapis/resources.kubesphere.io/v1alpha3/labels", clusterLabels + "/labels/" + id} {
		if r, err := u.do(t.Context(), http.MethodGet, path, nil); err != nil || r.code == http.StatusOK && strings.Contains(r.body, id) {
			t.Errorf("and %s, which names clusters: %d %s %v", path, r.code, clip(r.body), err)
		}
	}
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{http.MethodPost, "/labels", []any{obj{"key": "mine", "value": "x"}}},
		{http.MethodPut, "/labels/" + id, obj{"key": "mine", "value": "x"}},
		{http.MethodPut, "/labels/" + id + "?action=unbind", obj{"clusters": []any{"host"}}},
		{http.MethodDelete, "/labels", []any{id}},
		{http.MethodPost, "/labelbindings", obj{"labels": []any{id}, "clusters": []any{"host"}}},
	} {
		u.must(t, http.StatusForbidden, c.method, clusterLabels+c.path, c.body)
	}
	clusters := tenants + "/clusters?labelSelector=label.cluster.kubesphere.io/" + id
	a.must(t, http.StatusOK, http.MethodPost, clusterLabels+"/labelbindings", obj{"labels": []any{id}, "clusters": []any{"host"}})
	eventually(t, "the cluster is found by it", a.has(clusters, `"name":"host"`))
	a.must(t, http.StatusOK, http.MethodPut, clusterLabels+"/labels/"+id+"?action=unbind", obj{"clusters": []any{"host"}})
	eventually(t, "no longer", a.has(clusters, `"totalItems":0`))
	host := "/apis/cluster.kubesphere.io/v1alpha1/clusters/host"
	a.must(t, http.StatusOK, http.MethodPatch, host, `{"metadata":{"annotations":{"cluster.kubesphere.io/label-ids":"`+id+`,none"}}}`, asMerge)
	eventually(t, "a cluster that names it is put on it", a.has(clusters, `"name":"host"`))
	eventually(t, "and names it no longer", lacks(a, host, "label-ids"))
	a.must(t, http.StatusOK, http.MethodPut, clusterLabels+"/labels/"+id, obj{"key": "stage", "value": value})
	eventually(t, "it has another key", u.has(clusterLabels+"/labels", `"stage":[`))
	a.must(t, http.StatusOK, http.MethodDelete, clusterLabels+"/labels", []any{id})
	eventually(t, "it is gone", lacks(u, clusterLabels+"/labels", id))
}

// D5: the list of clusters is of those that a user can open.
func TestD5AUserSeesTheClustersOfTheirRoles(t *testing.T) {
	a, gina, dora := admin(t), unique("gina"), unique("dora")
	g, d := newUser(t, gina), newUser(t, dora)
	ws := newManagedWorkspace(t, dora)
	a.create(t, iamAPI+"/clusterrolebindings", obj{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "ClusterRoleBinding", "metadata": obj{"name": gina},
		"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": "ClusterRole", "name": "cluster-viewer"},
		"subjects": []any{obj{"kind": "User", "name": gina, "apiGroup": "rbac.authorization.k8s.io"}},
	})
	const granted = `"iam.kubesphere.io/granted-clusters":"host"`
	eventually(t, "a viewer of the cluster sees it", g.has(tenants+"/clusters", `"name":"host"`))
	eventually(t, "and is told so", g.has(iamRoute+"/users/"+gina, granted))
	eventually(t, "a member of a workspace sees it where asked for bindings", d.has(tenants+"/clusters?roleBindingExists=true", `"name":"host"`))
	eventually(t, "has the workspace", d.is(http.StatusOK, http.MethodGet, tenants+"/workspacetemplates/"+ws))
	for path, not := range map[string]string{tenants + "/clusters": `"name":"host"`, tenants + "/metrics": "platform_cluster_count", iamRoute + "/users/" + dora: granted} {
		if r := d.must(t, http.StatusOK, http.MethodGet, path, nil); strings.Contains(r.body, not) {
			t.Errorf("%s: %s", path, clip(r.body))
		}
	}
	// The annotation gives nothing: nobody writes it for themselves, and who has it without a role sees nothing by it.
	d.must(t, http.StatusForbidden, http.MethodPatch, "/apis/iam.kubesphere.io/v1beta1/users/"+dora,
		`{"metadata":{"annotations":{"iam.kubesphere.io/granted-clusters":"host"}}}`, asMerge)
	a.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/clusterrolebindings/"+gina, nil)
	within(t, revocation, "without the role it is not listed", lacks(g, tenants+"/clusters", `"name":"host"`))
	eventually(t, "nor told", lacks(g, iamRoute+"/users/"+gina, granted))
}

// D14: what the console asks as every user. Nodes are refused at each door: their addresses, versions and images are for those who run the cluster, and
// pages go on without them.
func TestD14PlainUsersReadNothingOfNodes(t *testing.T) {
	u := newUser(t, unique("plain"))
	for _, path := range []string{
		kapis + "/customresourcedefinitions?name=configurations.springcloud.kubesphere.io", clusterLabels + "/labels", tenants + "/clusters",
		kapis + "/clusters?labelSelector=cluster.kubesphere.io/visibility=public&limit=-1&sortBy=createTime", iamRoute + "/users?limit=10",
		iamRoute + "/categories", iamRoute + "/roletemplates", host + "/kapis/storage.k8s.io/v1/storageclasses?limit=10",
	} {
		eventually(t, path, u.is(http.StatusOK, http.MethodGet, path))
	}
	for _, path := range []string{"/api/v1/nodes", "/clusters/host/api/v1/nodes", "/kapi/v1/nodes", kapis + "/nodes", "/api/v1/nodes?watch=true", "/api/v1/services"} {
		u.must(t, http.StatusForbidden, http.MethodGet, path, nil)
	}
}
