package component_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"kapis.dev/ks-apiserver/pkg/component"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func namespaceOf(name, workspace string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"kubesphere.io/workspace":%q}}}`, name, workspace)
}

func serviceOf(namespace, name, selector string) string {
	return fmt.Sprintf(
		`{"kind":"Service","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":"u","creationTimestamp":"2026-01-02T03:04:05Z"},"spec":{"selector":%s}}`,
		name,
		namespace,
		selector,
	)
}

func podOf(namespace, name, labels, phase, ready string) string {
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":%q,"labels":%s},`+
		`"status":{"phase":%q,"conditions":[{"type":"Initialized","status":"True"},{"type":"Ready","status":%q}]}}`, name, namespace, namespace+name, labels, phase,
		ready)
}

func nodeOf(name, ready string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"status":{"conditions":[{"type":"DiskPressure","status":"False"},{"type":"Ready","status":%q}]}}`, name, ready)
}

func components(t *testing.T) *component.Service {
	const web, db = `{"app":"web","tier":"front"}`, `{"app":"db"}`
	return &component.Service{Store: kapistest.NewStore(t, map[string][]any{
		"/api/v1/namespaces": {
			namespaceOf("kubesphere-system", "system-workspace"), namespaceOf("kube-system", ""), namespaceOf("extension-b", "system-workspace"),
			namespaceOf("extension-a", "system-workspace"), namespaceOf("tenant", "theirs"),
		},
		"/api/v1/services": {
			serviceOf("kubesphere-system", "web", web), serviceOf("kube-system", "db", db), serviceOf("kube-system", "web", db),
			serviceOf("extension-b", "b", db), serviceOf("extension-a", "a", db), serviceOf("tenant", "theirs", web),
			serviceOf("kube-system", "headless", `{}`), serviceOf("kube-system", "external", `null`),
		},
		"/api/v1/pods": {
			podOf(
				"kubesphere-system",
				"1",
				web,
				"Running",
				"True",
			),
			podOf("kubesphere-system", "2", web, "Running", "False"),
			podOf("kubesphere-system", "3", web, "Pending", "False"),
			podOf("kubesphere-system", "done", web, "Succeeded", "False"),
			podOf("kubesphere-system", "evicted", web, "Failed", "False"),
			podOf("kubesphere-system", "half", `{"app":"web"}`, "Running", "True"),
			podOf("tenant", "1", web, "Running", "True"),
			podOf("kube-system", "db", db, "Running", "True"),
			podOf("extension-a", "db", db, "Running", "Unknown"),
			`{"metadata":{"name":"new","namespace":"kube-system","uid":"n","labels":{"app":"db"}}}`,
		},
		"/api/v1/nodes": {nodeOf("n1", "True"), nodeOf("n2", "False"), nodeOf("n3", "Unknown"), nodeOf("n4", "True"), `{"metadata":{"name":"n5"}}`},
	})}
}

func TestComponentsAreTheServicesOfThePlatform(t *testing.T) {
	all, err := components(t).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := make([]string, 0, len(all))
	for _, c := range all {
		got = append(got, fmt.Sprintf("%s/%s %d/%d", c.Namespace, c.Name, c.HealthyBackends, c.TotalBackends))
	}
	want := []string{"kubesphere-system/web 1/3", "kube-system/db 1/2", "kube-system/web 1/2", "extension-a/a 0/1", "extension-b/b 0/0"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	raw, err := json.Marshal(all[0])
	if err != nil || string(raw) != `{"name":"web","namespace":"kubesphere-system","selfLink":"/api/v1/namespaces/kubesphere-system/services/web",`+
		`"label":{"app":"web","tier":"front"},"startedAt":"2026-01-02T03:04:05Z","totalBackends":3,"healthyBackends":1}` {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestAComponentIsFoundByItsName(t *testing.T) {
	s := components(t)
	for name, namespace := range map[string]string{"web": "kubesphere-system", "db": "kube-system", "b": "extension-b"} {
		if c, err := s.Get(t.Context(), name); err != nil || c.Namespace != namespace || c.Name != name {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	for _, name := range []string{"none", "theirs", "headless", ""} { // S1: no other namespace is looked into
		if c, err := s.Get(t.Context(), name); !apierrors.IsNotFound(err) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

func TestHealthCountsTheNodes(t *testing.T) {
	h, err := components(t).Health(t.Context())
	if err != nil || len(h.Components) != 5 || h.Nodes != (component.Nodes{5, 2}) {
		t.Fatalf("%+v, %v", h, err)
	}
	empty := &component.Service{Store: kapistest.NewStore(t, nil)}
	h, err = empty.Health(t.Context())
	raw, _ := json.Marshal(h)
	if err != nil || string(raw) != `{"kubesphereStatus":[],"kubernetesStatus":[],"nodeStatus":{"totalNodes":0,"healthyNodes":0}}` {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestAKindThatIsNotKnownIs503(t *testing.T) {
	for _, path := range []string{"/api/v1/namespaces", "/api/v1/services", "/api/v1/pods", "/api/v1/nodes"} {
		s := &component.Service{Store: kapistest.NewStore(t, nil, path)}
		if _, err := s.Health(t.Context()); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
