package resources_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/inventory"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/remote"
	"kapis.dev/ks-apiserver/pkg/resource"

	restful "github.com/emicklei/go-restful/v3"
)

func of(namespace, name, rest string) string {
	return fmt.Sprintf(`{"kind":"X","apiVersion":"apps/v1","metadata":{"name":%q,"namespace":%q,"uid":%q}%s}`, name, namespace, namespace+name, rest)
}

// inventoryRoutes is both versions over a small cluster.
func inventoryRoutes(t *testing.T, broken ...string) *restful.Container {
	t.Helper()
	st := kapistest.NewStore(t, map[string][]any{
		"/api/v1/namespaces": {of("", "a", "")},
		"/api/v1/pods":       {of("a", "p", ""), of("b", "p", "")},
		"/api/v1/nodes":      {of("", "n", `,"status":{"conditions":[{"type":"Ready","status":"True"}]}`)},
		"/api/v1/services":   {of("kube-system", "dns", `,"spec":{"selector":{"k":"dns"}}`)},
		"/apis/apps/v1/deployments": {
			of("a", "bad", `,"spec":{"replicas":2},"status":{"readyReplicas":1}`),
			of("a", "good", `,"spec":{"replicas":1},"status":{"readyReplicas":1}`),
			of("b", "bad", `,"spec":{"replicas":1}`),
		},
		"/apis/apps/v1/daemonsets": {of("a", "web", `,"spec":{}`)},
		"/apis/apps/v1/controllerrevisions": {
			`{"metadata":{"name":"r","namespace":"a","uid":"r","ownerReferences":[{"uid":"aweb"}]},"revision":3,"data":{"spec":{"updateStrategy":{"type":"OnDelete"}}}}`,
		},
		"/apis/batch/v1/jobs": {of("a", "j", `,"status":{"conditions":[{"type":"Failed","status":"True"}]}`)},
		"/api/v1/persistentvolumeclaims": {
			of("a", "c1", `,"status":{"phase":"Pending"}`),
			of("a", "c2", `,"status":{"phase":"Lost"}`),
			of("a", "c3", `,"status":{"phase":"Bound"}`),
		},
	}, broken...)
	r := resource.New(st, resource.Options{})
	i := inventory.New(st, r)
	return kapistest.Container((&resources.V1alpha3{Resources: r, Inventory: i}).WebService(),
		(&resources.V1alpha2{Inventory: i, Remotes: remote.New(remote.Options{})}).WebService())
}

func TestInventory(t *testing.T) {
	c := inventoryRoutes(t)
	const dns = `"name":"dns","namespace":"kube-system"`
	for _, r := range []struct {
		name, path string
		code       int
		has, lacks string
	}{
		{"ClusterOverview", resources.Root + "/metrics", 200,
			`{"metric_name":"cluster_pod_count","data":{"resultType":"vector","result":[{"value":[`, "namespace_pod"},
		{"NamespaceOverview", resources.Root + "/namespaces/a/metrics", 200, `"namespace_pod_count"`, "cluster_"},
		{"NamespaceThatIsNotThere", resources.Root + "/namespaces/none/metrics", 200, `"namespace_pod_count"`, ""},
		{"Components", resources.Root + "/components", 200, `[{` + dns, ""},
		{"OldComponents", resources.RootV1alpha2 + "/components", 200, `[{` + dns, ""},
		{"Component", resources.Root + "/components/dns", 200, `{` + dns, "["},
		{"OldComponent", resources.RootV1alpha2 + "/components/dns", 200, `{` + dns, "["},
		{"UnknownComponent", resources.Root + "/components/none", 404, `components \"none\" not found`, ""},
		{"Health", resources.Root + "/componenthealth", 200, `"nodeStatus":{"totalNodes":1,"healthyNodes":1}`, ""},
		{"OldHealth", resources.RootV1alpha2 + "/componenthealth", 200, `{"kubesphereStatus":[{` + dns, ""},
		{"ClusterQuotas", resources.RootV1alpha2 + "/quotas", 200, `{"namespace":"\"\"","data":{"used":{`, "hard"},
		{"NamespaceQuotas", resources.RootV1alpha2 + "/namespaces/a/quotas", 200, `"count/pods":"1"`, `"\"\""`},
		{"ClusterAbnormal", resources.RootV1alpha2 + "/abnormalworkloads", 200,
			`{"namespace":"","data":{"daemonsets":0,"deployments":2,"jobs":1,"persistentvolumeclaims":2,"statefulsets":0}}`, ""},
		{"NamespaceAbnormal", resources.RootV1alpha2 + "/namespaces/a/abnormalworkloads", 200,
			`{"namespace":"a","data":{"daemonsets":0,"deployments":1,"jobs":1,"persistentvolumeclaims":2,"statefulsets":0}}`, ""},
		{"Revision", resources.RootV1alpha2 + "/namespaces/a/daemonsets/web/revisions/3", 200, `"type":"OnDelete"`, ""},
		{"UnknownRevision", resources.RootV1alpha2 + "/namespaces/a/daemonsets/web/revisions/4", 404, "no revision 4", ""},
		{"RevisionThatIsNoNumber", resources.RootV1alpha2 + "/namespaces/a/daemonsets/web/revisions/x", 400, "not a number", ""},
		{"RevisionOfADeployment", resources.RootV1alpha2 + "/namespaces/a/deployments/good/revisions/1", 404, "no revision 1", ""},
		{"RevisionOfAStatefulSet", resources.RootV1alpha2 + "/namespaces/a/statefulsets/none/revisions/1", 404, "NotFound", ""},
		{"Watch", resources.Root + "/metrics?watch=true", 405, "watch", ""},
		{"WatchOfQuotas", resources.RootV1alpha2 + "/quotas?watch=1", 405, "watch", ""},
		{"KubeconfigIsNotHere", resources.RootV1alpha2 + "/users/admin/kubeconfig", 404, "", ""},
		{"ListsAreNotHere", resources.RootV1alpha2 + "/pods", 404, "", ""},
		{"ListsAreWhereTheyWere", resources.Root + "/pods", 200, `"totalItems":2`, ""},
		{"ObjectsAreWhereTheyWere", resources.Root + "/namespaces/a/pods/p", 200, `"name":"p"`, ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			rec := kapistest.Serve(t, c, http.MethodGet, r.path)
			body := rec.Body.String()
			if rec.Code != r.code || !strings.Contains(body, r.has) || r.lacks != "" && strings.Contains(body, r.lacks) {
				t.Fatalf("%d %s", rec.Code, body)
			}
			if w := rec.Header().Values("Warning"); len(w) > 0 {
				t.Errorf("warnings %q", w)
			}
		})
	}
}

func TestWhatIsNotCountedIsSaid(t *testing.T) {
	c := inventoryRoutes(t, "/apis/apps/v1/deployments")
	for _, path := range []string{resources.Root + "/namespaces/a/metrics", resources.RootV1alpha2 + "/namespaces/a/quotas",
		resources.RootV1alpha2 + "/abnormalworkloads"} {
		rec := kapistest.Serve(t, c, http.MethodGet, path)
		// Other kinds may not be known either, after the wait for one that never arrives.
		warnings := strings.Join(rec.Header().Values("Warning"), "\n")
		if rec.Code != 200 || !strings.Contains(warnings, `299 - "deployments`) || strings.Contains(rec.Body.String(), "deployment") {
			t.Errorf("%s: %d %q %s", path, rec.Code, warnings, rec.Body)
		}
	}
}

func TestARouteAnswersOnlyWhatWasAuthorized(t *testing.T) { // S1
	c := inventoryRoutes(t)
	for _, r := range []struct{ authorized, served string }{
		{resources.Root + "/namespaces/a/metrics", resources.Root + "/metrics"},
		{resources.Root + "/metrics", resources.Root + "/namespaces/a/metrics"},
		{resources.Root + "/components/web", resources.Root + "/components/dns"},
		{resources.Root + "/components", resources.Root + "/components/dns"},
		{resources.RootV1alpha2 + "/namespaces/b/quotas", resources.RootV1alpha2 + "/namespaces/a/quotas"},
		{resources.RootV1alpha2 + "/namespaces/a/daemonsets/web", resources.RootV1alpha2 + "/namespaces/a/daemonsets/web/revisions/3"},
		{"/api/v1/namespaces/a/metrics", resources.Root + "/namespaces/a/metrics"},
	} {
		rec := serve(t, c, http.MethodGet, r.served, r.authorized, "")
		if rec.Code != http.StatusNotFound {
			t.Errorf("%s with the right to %s: %d %s", r.served, r.authorized, rec.Code, rec.Body)
		}
	}
}
