package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// call is a call of the console: what it sends, and what it reads of the answer.
type call struct {
	method, path string
	body         any
	// code is what it takes for an answer, or one of those; reads are the values that it reads: paths into the answer, "items[]" for each of a list. A
	// path that ends in "?" may be missing.
	codes []int
	reads []string
}

func get(path string, reads ...string) call {
	return call{http.MethodGet, path, nil, []int{http.StatusOK}, reads}
}

// soft is a call without which it goes on: an extension's, or the platform's.
func soft(path string, reads ...string) call {
	return call{http.MethodGet, path, nil, []int{http.StatusOK, http.StatusForbidden, http.StatusNotFound}, reads}
}

func getOr(code int, path string, reads ...string) call {
	return call{http.MethodGet, path, nil, []int{http.StatusOK, code}, reads}
}

// base is what it reads of every object.
var base = []string{"metadata.uid", "metadata.name", "metadata.creationTimestamp", "metadata.resourceVersion"}

func items(fields ...string) []string {
	out := []string{"items"}
	for _, f := range append(slices.Clone(base), fields...) {
		out = append(out, "items[]."+f)
	}
	return out
}

func paged(fields ...string) []string { return append(items(fields...), "totalItems") }

// everyPage are the calls with which it renders any page, as the user.
func everyPage(user string) []call {
	return []call{
		get("/kapis/config.kubesphere.io/v1alpha2/configs/theme"),
		get("/kapis/config.kubesphere.io/v1alpha2/configs/configz", "multicluster.clusterRole", "multicluster.hostClusterName"),
		get("/version", "gitVersion", "kubernetes.gitVersion"),
		soft("/apis/kubesphere.io/v1alpha1/extensions", "items"),
		get(iamRoute+"/users/"+user, "metadata.name", "spec.email", "status.state"),
		get(iamRoute+"/users/"+user+"/roletemplates?scope=global", "items", "totalItems"),
		get(tenants+"/workspacetemplates?limit=10", "items", "totalItems"),
		get(tenants+"/workspaces?limit=10", "items", "totalItems"),
		get(tenants+"/clusters", "items", "totalItems"),
		soft("/api/v1/nodes", "items[].status.nodeInfo.containerRuntimeVersion"),
		soft("/apis/extensions.kubesphere.io/v1alpha1/jsbundles", "items"),
		soft("/apis/extensions.kubesphere.io/v1alpha1/extensionentries", "items"),
		get(iamRoute+"/users?sortBy=createTime&limit=10", "items", "totalItems"), // the names beside the aliases
		get(iamRoute+"/users", "items", "totalItems"),
		get(iamRoute+"/users/"+user+"/roletemplates?scope=cluster&cluster=host", "items"),
		get(host+iamRoute+"/users/"+user+"/roletemplates?scope=cluster&cluster=host", "items"),
		get(iamRoute+"/users/"+user+"/loginrecords?sortBy=createTime&limit=10&page=1", "items", "totalItems"),
		get(kapis+"/clusters?labelSelector=cluster.kubesphere.io/visibility=public&limit=-1&sortBy=createTime", "items", "totalItems"),
		get(tenants+"/metrics", "results"),
		get(tenants+"/clusters?labelSelector=cluster-role.kubesphere.io/host=,!cluster-role.kubesphere.io/edge&limit=-1&sortBy=createTime", "items"),
		get(
			tenants+"/clusters?labelSelector=!cluster-role.kubesphere.io/host,!cluster-role.kubesphere.io/edge&limit=10&sortBy=createTime&page=1",
			"items",
			"totalItems",
		),
		get(tenants+"/clusters?roleBindingExists=true&labelSelector=cluster.kubesphere.io/visibility!=public", "items"),
	}
}

// workspacePages are those of a workspace.
func workspacePages(w, user string) []call {
	in, iam := tenants+"/workspaces/"+w, iamRoute+"/workspaces/"+w
	return []call{
		get(tenants+"/workspacetemplates/"+w, append(slices.Clone(base), "spec.template.spec.manager", "spec.placement.clusters[].name")...),
		get(in+"/clusters?workspace="+w+"&sortBy=createTime&limit=10&page=1", paged()...),
		get(
			iamRoute+"/users/"+user+"/roletemplates?scope=workspace&workspace="+w+"&cluster=host",
			items("metadata.annotations.iam.kubesphere.io/role-template-rules")...),
		get(in+"/metrics", "results[].metric_name", "results[].data.result[].value"),
		get(
			in+"/namespaces?sortBy=createTime&limit=10&page=1&labelSelector=kubesphere.io/managed=true,kubesphere.io/kubefed-host-namespace!=true",
			paged("metadata.labels.kubesphere.io/workspace", "status.phase")...),
		get(
			"/clusters/host"+in+"/namespaces?sortBy=createTime&limit=10&page=1&labelSelector=kubesphere.io/managed=true,kubesphere.io/kubefed-host-namespace!=true",
			paged()...),
		get(iam+"/workspacemembers?sortBy=createTime&limit=10&page=1", paged("metadata.annotations.iam.kubesphere.io/workspacerole")...),
		get(iam+"/workspacemembers/"+user, "metadata.name", "metadata.annotations.iam.kubesphere.io/workspacerole"),
		get(iam+"/workspaceroles?sortBy=createTime&limit=-1&page=1", items("aggregationRoleTemplates.templateNames")...),
		get(iam+"/workspaceroles?annotation=kubesphere.io/creator&sortBy=createTime&limit=10&page=1", "items"),
		get(iam+"/workspaceroles/"+w+"-admin", append(slices.Clone(base), "rules", "aggregationRoleTemplates.templateNames")...),
		get("/clusters/host"+in+"/workspacemembers/"+user+"/namespaces?labelSelector=kubesphere.io/managed=true&sortBy=createTime&limit=10&page=1", "items"),
		getOr(http.StatusNotFound, "/clusters/host"+in+"/resourcequotas/"+w),
		get("/clusters/host/apis/tenant.kubesphere.io/v1beta1/workspaces/"+w, base...),
		get(kapis+"/clusters/host", append(slices.Clone(base), "status.kubeSphereVersion")...),
		get(iam+"/workspacemembers?limit=-1&sortBy=createTime", paged()...),
		get(iamRoute+"/users?names="+user+",nobody&limit=-1", "items", "totalItems"), // merged into the members
		get(iam+"/workspacerolebindings?labelSelector=iam.kubesphere.io/role-ref=undefined", "items"),
		get("/clusters/host"+kapis+"/workspaces/"+w, base...),
	}
}

// roleEditor is what the editors of roles read, whoever may edit some.
func roleEditor() []call {
	var out []call
	for _, scope := range []string{"global", "cluster", "workspace", "namespace"} {
		out = append(
			out,
			get(
				iamRoute+"/roletemplates?labelSelector=iam.kubesphere.io/scope="+scope+",kubesphere.io/managed=true",
				items("metadata.labels.iam.kubesphere.io/category", "spec.displayName")...),
			get(
				iamRoute+"/roletemplates?labelSelector=iam.kubesphere.io/scope="+scope+",kubesphere.io/managed=true,iam.kubesphere.io/hidden-role-template!=true",
				"items",
			),
			get(iamRoute+"/categories?labelSelector=iam.kubesphere.io/scope="+scope+",kubesphere.io/managed=true", items("spec.displayName")...),
		)
	}
	return out
}

// projectPages are those of a namespace.
func projectPages(w, ns, user string) []call {
	v3, older := host+kapis+"/namespaces/"+ns, host+older+"/namespaces/"+ns
	out := []call{
		get(host+tenants+"/workspaces/"+w+"/namespaces/"+ns, append(slices.Clone(base), "metadata.labels.kubesphere.io/workspace", "status.phase")...),
		get(host+iamRoute+"/users/"+user+"/roletemplates?scope=namespace&namespace="+ns, items("metadata.annotations.iam.kubesphere.io/role-template-rules")...),
		get(older+"/quotas", "data.used"),
		get(older+"/abnormalworkloads", "data"),
		get(v3+"/metrics", "results[].metric_name"),
		get(host+"/api/v1/namespaces/"+ns, base...),
		get(host+"/api/v1/namespaces/"+ns+"/limitranges", "items"),
		get(host+iamRoute+"/namespaces/"+ns+"/namespacemembers?limit=-1&sortBy=createTime", paged("metadata.annotations.iam.kubesphere.io/role")...),
		get(host+iamRoute+"/namespaces/"+ns+"/roles?limit=-1&sortBy=createTime", items("rules")...),
		get(host+iamRoute+"/namespaces/"+ns+"/roles?annotation=kubesphere.io/creator&sortBy=createTime&limit=10&page=1", "items", "totalItems"),
		get(host+iamRoute+"/namespaces/"+ns+"/roles/admin", base...),
		get(host+kapis+"/customresourcedefinitions?name=configurations.springcloud.kubesphere.io", "items", "totalItems"),
		get(host+"/kapis/storage.k8s.io/v1/storageclasses?sortBy=createTime&limit=-1", "items", "totalItems"),
		get(
			host+"/api/v1/namespaces/"+ns+"/events?fieldSelector=involvedObject.name%3Dx,involvedObject.namespace%3D"+ns+",involvedObject.kind%3DDeployment,involvedObject.uid%3Dx",
			"items",
		),
		getOr(http.StatusNotFound, host+"/apis/autoscaling/v2/namespaces/"+ns+"/horizontalpodautoscalers/none"),
		soft(host + "/kapis/autoscaling.kubesphere.io/v1alpha1/namespaces/" + ns + "/scaledobjects/none"),
		get(host + "/kapis/gateway.kubesphere.io/v1alpha2/namespaces/" + ns + "/availableingressclassscopes"),
	}
	for _, kind := range []string{"deployments", "jobs"} {
		out = append(out, get(v3+"/"+kind+"?sortBy=updateTime&limit=10", "items", "totalItems"))
	}
	out = append(out, get(v3+"/pods?sortBy=startTime&limit=10", "items", "totalItems"))
	for _, kind := range []string{"statefulsets", "daemonsets", "cronjobs", "services", "ingresses", "persistentvolumeclaims", "configmaps", "serviceaccounts"} {
		out = append(out, get(v3+"/"+kind+"?sortBy=createTime&limit=10", "items", "totalItems"))
	}
	return out
}

// secretPages are those of secrets, which the viewer of a project has not.
func secretPages(ns string) []call {
	return []call{
		get(host+"/api/v1/namespaces/"+ns+"/secrets?fieldSelector=type%3Dkubernetes.io/dockerconfigjson", "items"),
		get(host+kapis+"/namespaces/"+ns+"/secrets?sortBy=createTime&limit=10", paged("type")...),
	}
}

// consoleLabel is the key of a label of clusters.
const consoleLabel = "console-team"

// adminPages are those of users, platform roles and clusters.
func adminPages(user string) []call {
	out := []call{
		get(iamRoute+"/users?sortBy=createTime&limit=10&page=1", paged("spec.email", "status.state")...),
		get(iamRoute+"/users?names="+user+",admin&limit=-1", paged()...),
		get(iamRoute+"/users?fieldSelector=spec.email%3D"+user+"@example.com", paged()...),
		get(iamRoute+"/users/admin/loginrecords?sortBy=createTime&limit=10&page=1", paged("spec.type", "spec.sourceIP", "spec.userAgent", "spec.success")...),
		get(iamRoute+"/globalroles?sortBy=createTime&limit=-1", items("rules")...),
		get(iamRoute+"/globalroles?annotation=kubesphere.io/creator&sortBy=createTime&limit=10&page=1", "items"),
		get(iamRoute+"/globalroles/platform-admin", append(slices.Clone(base), "aggregationRoleTemplates.templateNames")...),
		get(kapis+"/clusters/host", append(slices.Clone(base), "status.kubeSphereVersion", "status.kubernetesVersion")...),
		get("/kapis/cluster.kubesphere.io/v1alpha1/labels", consoleLabel+"[].value", consoleLabel+"[].id"), // no list: that breaks the page
		get(host+kapis+"/metrics", "results[].metric_name"),
		get(
			host+kapis+"/nodes?labelSelector=node-role.kubernetes.io/master%7Cnode-role.kubernetes.io/control-plane&sortBy=name&ascending=true",
			"items",
			"totalItems",
		),
		get(
			host+kapis+"/nodes?labelSelector=!node-role.kubernetes.io/edge,!node-role.kubernetes.io/edge&sortBy=name&ascending=true&limit=10&page=1",
			paged("status.nodeInfo", "metadata.labels", "metadata.annotations.node.kubesphere.io/cpu-requests-fraction",
				"metadata.annotations.node.kubesphere.io/memory-limits")...),
		get(host+kapis+"/pods?nodeName=none&sortBy=startTime&limit=10&page=1", "items", "totalItems"),
		get(host + older + "/components"),
		get(host+older+"/componenthealth", "nodeStatus", "kubesphereStatus", "kubernetesStatus"),
		get(host+iamRoute+"/clustermembers?sortBy=createTime&limit=10&page=1", "items", "totalItems"),
		get(host+iamRoute+"/clusterroles?limit=-1&sortBy=createTime", items("rules")...),
		get(host+iamRoute+"/clusterroles?annotation=kubesphere.io/creator&sortBy=createTime&limit=10&page=1", "items"),
		get(host+iamRoute+"/clusterroles/cluster-admin", base...),
		get(
			host+kapis+"/namespaces?labelSelector=kubesphere.io/workspace!%3Dsystem-workspace,!kubesphere.io/devopsproject&sortBy=createTime&limit=10&page=1",
			paged("status.phase")...),
		get(host+kapis+"/workspaces?sortBy=createTime&limit=10&page=1", paged()...),
		get(host+kapis+"/customresourcedefinitions?sortBy=createTime&limit=10&page=1", paged("spec.group", "spec.names.plural")...),
		get(host+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/users.iam.kubesphere.io", append(slices.Clone(base), "spec.versions[].name")...),
		get(host+"/apis/iam.kubesphere.io/v1beta1/users?sortBy=createTime&limit=10&page=1&continue=", items()...),
		get(host+"/kapis/networking.k8s.io/v1/networkpolicies?limit=10&page=1", "items", "totalItems"),
		getOr(http.StatusNotFound, host+"/kapis/network.kubesphere.io/v1alpha2/ippools?sortBy=createTime&limit=10&page=1&hasStatus=false"),
		get("/api/v1/nodes", "items[].status.nodeInfo.containerRuntimeVersion"),
	}
	for plural, sort := range map[string]string{"deployments": "updateTime", "jobs": "updateTime", "pods": "startTime", "statefulsets": "", "daemonsets": "",
		"cronjobs": "", "services": "", "ingresses": "", "persistentvolumeclaims": "", "secrets": "", "configmaps": "", "serviceaccounts": ""} {
		out = append(out, get(host+kapis+"/"+plural+"?limit=10&sortBy="+cmp.Or(sort, "createTime"), "items", "totalItems"))
	}
	return out
}

// The console of the 4.1 line finds what it reads: as an admin, as the member of a workspace, and as somebody who is in none.
func TestTheConsoleFindsWhatItReads(t *testing.T) {
	a, w := admin(t), newTenant(t, unique("console"))
	plain, reader := unique("plain"), unique("reader")
	// Its page of logins has some. Another test may have taken away those that there were, and what is like one of seconds ago is not recorded.
	eventually(t, "a login is recorded", func(ctx context.Context) error {
		err := a.has(iamRoute+"/users/admin/loginrecords?limit=1", `"success":true`)(ctx)
		if err != nil {
			loginAt(t, product.URL, "admin", product.AdminPassword)
		}
		return err
	})
	a.create(t, "/apis/cluster.kubesphere.io/v1alpha1/labels", obj{
		"apiVersion": "cluster.kubesphere.io/v1alpha1", "kind": "Label", "metadata": obj{"name": unique("label")}, "spec": obj{"key": consoleLabel, "value": "red"},
	})
	p, v := newUser(t, plain), newUser(t, reader)
	a.must(
		t,
		http.StatusOK,
		http.MethodPost,
		iamRoute+"/workspaces/"+w.workspace+"/workspacemembers",
		[]obj{{"username": reader, "roleRef": w.workspace + "-regular"}},
	)
	eventually(t, "the roles of the namespace", a.is(http.StatusOK, http.MethodGet, iamRoute+"/namespaces/"+w.namespace+"/roles/viewer"))
	a.must(t, http.StatusOK, http.MethodPost, iamRoute+"/namespaces/"+w.namespace+"/namespacemembers", []obj{{"username": reader, "roleRef": "viewer"}})
	for name, who := range map[string]struct {
		caller
		calls []call
	}{
		"Admin": {a, slices.Concat(everyPage("admin"), workspacePages(w.workspace, w.user), projectPages(w.workspace, w.namespace, w.user), secretPages(w.namespace),
			roleEditor(), adminPages(w.user))},
		"Member": {w.caller, slices.Concat(everyPage(w.user), workspacePages(w.workspace, w.user), projectPages(w.workspace, w.namespace, w.user),
			secretPages(w.namespace), roleEditor())},
		"Viewer": {v, slices.Concat(everyPage(reader), workspacePages(w.workspace, reader), projectPages(w.workspace, w.namespace, reader))},
		"Plain":  {p, everyPage(plain)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range who.calls {
				t.Run(strings.ReplaceAll(c.method+" "+c.path, "/", " "), func(t *testing.T) {
					within(t, soon, "it answers", func(ctx context.Context) error { return c.check(ctx, who.caller) })
				})
			}
		})
	}
}

func (c call) check(ctx context.Context, who caller) error {
	r, err := who.do(ctx, c.method, c.path, c.body)
	switch {
	case err != nil:
		return err
	case !slices.Contains(c.codes, r.code):
		return fmt.Errorf("%d %s", r.code, clip(r.body))
	case r.code != http.StatusOK:
		// What kube-apiserver does not know it answers in plain text.
		if !strings.Contains(r.header.Get("Content-Type"), "json") && !strings.HasPrefix(c.path, "/apis/") {
			return fmt.Errorf("%d, and no Status: %s", r.code, clip(r.body))
		}
		return nil
	}
	var v any
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		return err
	}
	for _, path := range c.reads {
		if err := finds(v, path); err != nil {
			return fmt.Errorf("%w in %s", err, clip(r.body))
		}
	}
	return nil
}

// finds looks for a value. Keys of labels and annotations have dots: the longest key that is there counts.
func finds(v any, path string) error {
	switch {
	case path == "":
		return nil
	case strings.HasPrefix(path, "[]"):
		list, ok := v.([]any)
		if !ok || len(list) == 0 {
			return fmt.Errorf("no items before %q", path)
		}
		for _, one := range list {
			if err := finds(one, strings.TrimPrefix(path[2:], ".")); err != nil {
				return err
			}
		}
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("no object before %q", path)
	}
	for n := len(path); n > 0; n-- {
		if n < len(path) && path[n] != '.' && path[n] != '[' {
			continue
		}
		if one, ok := m[path[:n]]; ok {
			return finds(one, strings.TrimPrefix(path[n:], "."))
		}
	}
	return fmt.Errorf("nothing at %q", path)
}

// The names that its forms ask for are free: a detail is 404, a list by e-mail is empty (the console asks with the header x-check-exist).
func TestANameThatIsFreeIsNotThere(t *testing.T) {
	a, w := admin(t), unique("checked")
	newTeam(t, w)
	for _, path := range []string{
		iamRoute + "/users/none", tenants + "/workspacetemplates/none", iamRoute + "/globalroles/none", iamRoute + "/workspaces/" + w + "/workspaceroles/none",
		host + iamRoute + "/clusterroles/none", host + iamRoute + "/namespaces/default/roles/none", host + "/api/v1/namespaces/none",
	} {
		r := a.must(t, http.StatusNotFound, http.MethodGet, path, nil, "x-check-exist: true")
		if s := decode[metav1.Status](t, r.body); s.Code != http.StatusNotFound || s.Reason != metav1.StatusReasonNotFound {
			t.Errorf("%s: %s", path, clip(r.body))
		}
	}
	if err := a.holds(iamRoute + "/users?fieldSelector=spec.email%3Dnone@example.com")(t.Context()); err != nil {
		t.Error(err)
	}
}

// What the login page asks is for everybody.
func TestTheLoginPageOfTheConsoleAsksWithoutAToken(t *testing.T) {
	for _, c := range []call{
		get(configAPI + "/configs/theme"), get(configAPI + "/configs/oauth"),
		get(configAPI+"/configs/configz", "multicluster.clusterRole", "multicluster.hostClusterName"), get("/version", "gitVersion", "kubernetes.gitVersion"),
	} {
		if err := c.check(t.Context(), anonymous()); err != nil {
			t.Errorf("%s: %v", c.path, err)
		}
	}
}
