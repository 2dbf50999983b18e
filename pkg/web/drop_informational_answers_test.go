package web_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"kapis.dev/ks-apiserver/pkg/web"
)

type sent func(*http.Request) (*http.Response, error)

func (f sent) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// X10: what a client announces as trailers fails no request of a proxy, which would count as a member or a backend that is away.
func TestAProxyAnnouncesNoTrailers(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Trailer = http.Header{"a b": nil}
	resp, err := web.FinalAnswers{RoundTripper: sent(func(out *http.Request) (*http.Response, error) {
		if len(out.Trailer) > 0 {
			t.Errorf("announced %v", out.Trailer)
		}
		return httptest.NewRecorder().Result(), nil
	})}.RoundTrip(r)
	if err != nil || len(r.Trailer) != 1 {
		t.Fatalf("%v, and the proxy's own request has %v", err, r.Trailer)
	}
	_ = resp.Body.Close()
}
