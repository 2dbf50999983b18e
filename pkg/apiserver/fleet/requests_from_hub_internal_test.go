package fleet

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/cluster/extensionsync"
	"kapis.dev/ks-apiserver/pkg/cluster/fleetsync"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/releasesync"
	"kapis.dev/ks-apiserver/pkg/cluster/revalidate"
)

// F15: a request in which the hub names a user is that user's, whatever its path is.
func TestARequestForAUserIsNotTheHubs(t *testing.T) {
	ofUser := 0
	h, err := ofHub(Options{Cluster: &rest.Config{Host: "https://127.0.0.1:1"}}, "v1.37.1", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		ofUser++
		w.WriteHeader(http.StatusNotFound)
	}))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fleetsync.PathObjects, fleetsync.PathDigest, fleetsync.PathBound, fleetsync.PathAbout, fleetsync.PathHealth,
		fleetsync.PathCreator, extensionsync.PathState, extensionsync.PathChart, extensionsync.PathAgent, releasesync.PathState, releasesync.PathPackage,
		releasesync.PathRelease, releasesync.PathRemove, revalidate.Path} {
		for _, name := range []string{link.HeaderUser, link.HeaderUID, link.HeaderGroup, link.HeaderScope, ""} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, path, strings.NewReader("{}"))
			if name != "" {
				r.Header.Set(name, "ann")
			}
			ofUser = 0
			h.ServeHTTP(httptest.NewRecorder(), r)
			if want := map[bool]int{true: 1}[name != ""]; ofUser != want {
				t.Errorf("PUT %s with the header %q was answered as a user's %d times, want %d", path, name, ofUser, want)
			}
		}
	}
}
