package filter

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/status"
)

// F5, F14: a request goes on where its member is known; one for a member that may not be known yet is to be tried again, whoever asks; only then is a member
// said not to exist.
func TestAMemberMayNotBeKnownYet(t *testing.T) {
	known := false
	m := &Members{MayList: func(context.Context, user.Info) bool { return true }, Has: func(name string) (bool, error) {
		if name == "m1" || known {
			return name == "m1", nil
		}
		return false, status.Errorf(http.StatusServiceUnavailable, "not yet")
	}, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })}
	h := Chain(http.HandlerFunc(ok), Info, m.Cluster("host"), m.Pass)
	for _, now := range []bool{false, true} {
		known = now
		unknown := http.StatusServiceUnavailable
		if now {
			unknown = http.StatusBadRequest
		}
		for path, code := range map[string]int{"/api/v1/pods": http.StatusOK, "/clusters/host/api/v1/pods": http.StatusOK,
			"/clusters/m1/api/v1/pods": http.StatusTeapot, "/clusters/other/api/v1/pods": unknown} {
			if w := serve(h, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)); w.Code != code {
				t.Errorf("%s, all is known: %v: code %d, want %d", path, now, w.Code, code)
			}
		}
	}
}
