package health_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/apiserver/health"
	"kapis.dev/ks-apiserver/pkg/request"
)

func TestHealthTellsVitalFromDegraded(t *testing.T) {
	var vital, other error
	h := health.Handler{Checks: func() []health.Check {
		return []health.Check{
			{Name: "keys", Vital: true, Fault: func() error { return vital }},
			{Name: "cache/pods", Fault: func() error { return other }},
		}
	}}
	ask := func(path string) (int, string) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		h.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: "bob", Groups: []string{user.AllAuthenticated}})))
		return w.Code, w.Body.String()
	}
	for _, c := range []struct {
		name         string
		vital, other error
		path         string
		code         int
		want         string
	}{
		{"all is well", nil, nil, "/readyz", 200, "ok"},
		{"verbose lists every check", nil, nil, "/readyz?verbose", 200, "[+]ping ok\n[+]keys ok\n[+]cache/pods ok\nreadyz check passed\n"},
		{"a degraded kind does not take the server away", nil, errors.New("no CRD"), "/readyz", 200, "ok"},
		{"and is shown with its reason", nil, errors.New("no CRD"), "/readyz?verbose", 200, "[!]cache/pods degraded: no CRD"},
		{"a vital failure does", errors.New("no Secret"), nil, "/readyz", 503, "[-]keys failed: no Secret"},
		{"unless it is excluded", errors.New("no Secret"), nil, "/readyz?exclude=keys", 200, "ok"},
		{"liveness does not depend on it", errors.New("no Secret"), nil, "/livez", 200, "ok"},
		{"one check, well", nil, nil, "/readyz/keys", 200, "ok"},
		{"one check with a slash, not well", nil, errors.New("no CRD"), "/readyz/cache/pods", 503, "no CRD"},
		{"livez/ping", nil, nil, "/livez/ping", 200, "ok"},
		{"unknown check", nil, nil, "/readyz/none", 404, "no such check"},
	} {
		t.Run(c.name, func(t *testing.T) {
			vital, other = c.vital, c.other
			code, body := ask(c.path)
			if code != c.code || !strings.Contains(body, c.want) {
				t.Errorf("GET %s = %d %q, want %d with %q", c.path, code, body, c.code, c.want)
			}
		})
	}
}

func TestHealthTellsStrangersNoReasons(t *testing.T) {
	h := health.Handler{Checks: func() []health.Check {
		return []health.Check{{Name: "keys", Vital: true, Fault: func() error { return errors.New("dial 10.0.0.1") }}}
	}}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz?verbose", nil))
	if body := w.Body.String(); w.Code != http.StatusServiceUnavailable || strings.Contains(body, "10.0.0.1") || !strings.Contains(body, "[-]keys failed") {
		t.Errorf("%d %s", w.Code, body)
	}
}
