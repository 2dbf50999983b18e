package version_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	apimachineryversion "k8s.io/apimachinery/pkg/version"

	kapisversion "kapis.dev/ks-apiserver/pkg/kapis/version"
)

// The console reads gitVersion and kubernetes.gitVersion, and shows no page without the first.
func TestVersionNamesOursAndKubernetes(t *testing.T) {
	c := restful.NewContainer()
	for _, ws := range (kapisversion.Handler{Kubernetes: func() *apimachineryversion.Info {
		return &apimachineryversion.Info{GitVersion: "v1.37.1"}
	}}).WebServices() {
		c.Add(ws)
	}
	for _, path := range []string{"/version", "/kapis/version"} {
		w := httptest.NewRecorder()
		c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		var got struct {
			GitVersion string
			Kubernetes struct{ GitVersion string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || !strings.HasPrefix(got.GitVersion, "v4.1.") ||
			got.Kubernetes.GitVersion != "v1.37.1" {
			t.Errorf("%s: %d %s %v", path, w.Code, w.Body, err)
		}
	}
}
