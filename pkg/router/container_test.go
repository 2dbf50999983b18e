package router

import (
	"net/http/httptest"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/request"
)

func TestRoutesSeeTheCanonicalPath(t *testing.T) {
	for _, c := range []struct{ method, target, path, as string }{
		{"GET", "/clusters/host/kapis/apps/v1/deployments", "/kapis/apps/v1/deployments", "GET"},
		{"GET", "/kapis/apps/v1/deployments/", "/kapis/apps/v1/deployments", "GET"},
		{"HEAD", "/version", "/version", "GET"},
		{"POST", "/oauth/token", "/oauth/token", "POST"},
	} {
		r := httptest.NewRequest(c.method, c.target, nil)
		info, err := request.Parse(r)
		if err != nil {
			t.Fatal(err)
		}
		r = r.WithContext(request.WithInfo(r.Context(), info))
		got := Canonical(r)
		if got.URL.Path != c.path || got.Method != c.as {
			t.Errorf("%s %s: %s %s, want %s %s", c.method, c.target, got.Method, got.URL.Path, c.as, c.path)
		}
		if r.Method != c.method || r.URL.Path != strings.SplitN(c.target, "?", 2)[0] {
			t.Errorf("the request itself was changed: %s %s", r.Method, r.URL.Path)
		}
	}
}
