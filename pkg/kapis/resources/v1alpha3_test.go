package resources_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRoutes(t *testing.T) {
	c := kapistest.Container((&resources.V1alpha3{Resources: kapistest.NewService(t)}).WebService())
	for _, r := range []struct {
		name, path string
		code       int
		has, lacks string
	}{
		{"AllNamespaces", "/pods?sortBy=name&ascending=true", 200, `"totalItems":3`, `"kind":"PodList"`},
		{"OneNamespace", "/namespaces/a/pods", 200, `"totalItems":2`, "p3"},
		{"EmptyNamespace", "/namespaces/none/pods", 200, `"items":[]}`, `"totalItems":1`},
		{"Page", "/pods?sortBy=name&limit=1&page=2", 200, `"name":"p2"`, `"name":"p1"`},
		{"NoItems", "/pods?limit=0", 200, `{"totalItems":3,`, "p1"},
		{"Object", "/namespaces/a/pods/p1", 200, `"name":"p1"`, "items"},
		{"ClusterKind", "/namespaces", 200, `"totalItems":2`, ""},
		{"ClusterObject", "/namespaces/a", 200, `"kind":"Namespace"`, ""},
		{"KindOfAnotherGroup", "/workspaces/w", 200, `"kind":"Workspace"`, ""},
		{"UnknownKind", "/unicorns", 404, "not supported", ""},
		{"UnknownKindInANamespace", "/namespaces/a/unicorns/x", 404, "not supported", ""},
		{"ClusterKindInANamespace", "/namespaces/a/workspaces", 404, "not in namespaces", ""},
		{"UnknownObject", "/namespaces/a/pods/none", 404, "NotFound", ""},
		{"ObjectOfAnotherNamespace", "/namespaces/b/pods/p1", 404, "NotFound", ""},
		{"KindThatCannotBeListed", "/namespaces/a/bindings", 405, "MethodNotAllowed", ""},
		{"BadLimit", "/pods?limit=x", 400, `"field":"limit"`, ""},
		{"BadSortKey", "/pods?sortBy=x", 400, `"field":"sortBy"`, ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			rec := kapistest.Serve(t, c, http.MethodGet, resources.Root+r.path)
			body := rec.Body.String()
			if rec.Code != r.code || !strings.Contains(body, r.has) || r.lacks != "" && strings.Contains(body, r.lacks) {
				t.Fatalf("%d %s", rec.Code, body)
			}
			if ct := rec.Header().Get("Content-Type"); ct != "application/json" {
				t.Errorf("Content-Type %s", ct)
			}
			if r.code >= 400 {
				var s metav1.Status
				if err := json.Unmarshal(rec.Body.Bytes(), &s); err != nil || s.Kind != "Status" || int(s.Code) != r.code {
					t.Errorf("not a Status: %s", body)
				}
			}
		})
	}
}

func TestNothingIsServedThatWasNotParsed(t *testing.T) {
	c := kapistest.Container((&resources.V1alpha3{Resources: kapistest.NewService(t)}).WebService())
	for _, path := range []string{"/watch/pods", "/namespaces/a/pods/p1/log"} {
		if rec := kapistest.Serve(t, c, http.MethodGet, resources.Root+path); rec.Code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
}
