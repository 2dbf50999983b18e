package child

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/client-go/rest"
)

// TestObjectsAreBuiltWithoutOpenAPI builds an object from a manifest, with a server that fails the test where it is asked for more than
// which kinds there are.
func TestObjectsAreBuiltWithoutOpenAPI(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api":
			fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
		case "/apis":
			fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		case "/api/v1":
			fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true}]}`)
		default:
			t.Errorf("the server is asked for %s", r.URL.Path)
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	g, err := newGetter(&rest.Config{Host: server.URL}, "default")
	if err != nil {
		t.Fatal(err)
	}
	client := &owning{checkedByServer{kube.New(g)}, "release", "default"}
	built, err := client.Build(strings.NewReader(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"unknown":1}`), true)
	if err != nil {
		t.Fatal(err)
	}
	if len(built) != 1 || built[0].Name != "a" {
		t.Errorf("got %v, want one ConfigMap a", built)
	}
}
