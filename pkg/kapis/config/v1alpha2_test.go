package config_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"

	kapisconfig "kapis.dev/ks-apiserver/pkg/kapis/config"
)

// Without multicluster in this answer a client assumes a fleet.
func TestConfigzNamesTheHost(t *testing.T) {
	c := restful.NewContainer()
	c.Add(kapisconfig.Handler{Multicluster: kapisconfig.Multicluster{ClusterRole: "host", HostClusterName: "host"}}.V1alpha2())
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/kapis/config.kubesphere.io/v1alpha2/configs/configz", nil))
	if want := `{"multicluster":{"clusterRole":"host","hostClusterName":"host"}}`; w.Code != http.StatusOK || w.Body.String() != want {
		t.Errorf("%d %s, want %s", w.Code, w.Body, want)
	}
}

// The console refuses a larger upload by itself.
func TestConfigzSaysHowLargeUploadsMayBe(t *testing.T) {
	c := restful.NewContainer()
	c.Add(kapisconfig.Handler{Terminal: &kapisconfig.Terminal{UploadFileLimit: "100Mi"}}.V1alpha2())
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/kapis/config.kubesphere.io/v1alpha2/configs/configz", nil))
	if want := `"terminal":{"uploadFileLimit":"100Mi"}`; w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
		t.Errorf("%d %s, want %s", w.Code, w.Body, want)
	}
}
