package oauth

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// S51, T9700-11: pages of clients without a secret may call the endpoints that they need, from exactly the origins that
// they registered, and never with cookies.
func TestOnlyRegisteredPagesMayCall(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	open := []string{
		"/oauth/token",
		"/oauth/revoke",
		"/oauth/userinfo",
		"/oauth/keys",
		"/.well-known/openid-configuration",
		"/.well-known/oauth-authorization-server",
	}
	closed := []string{"/oauth/authorize", "/oauth/introspect", "/oauth/device_authorization", "/oauth/logout", "/oauth/authenticate"}
	for origin, good := range map[string]bool{
		"https://spa.example": true, "http://127.0.0.1": true,
		"https://spa.example.evil.example": false, "https://spaXexample": false, "https://SPA.example": false, "https://spa.example/": false,
		"http://spa.example":       false,
		"https://spa.example:8443": false, "null": false, "*": false, "": false, "https://harbor.example": false, "https://evil.example": false,
		"com.example.app:": false,
	} {
		for _, path := range append(open, closed...) {
			for _, method := range []string{http.MethodOptions, http.MethodGet, http.MethodPost} {
				r := do(t, request(t, method, s.URL+path, "", map[string]string{"Origin": origin, "Access-Control-Request-Method": "POST"}))
				want := ""
				if good && !slices.Contains(closed, path) && r.code != http.StatusMethodNotAllowed {
					want = origin
				}
				if got := r.header.Get("Access-Control-Allow-Origin"); got != want {
					t.Errorf("%s %s from %q: %q, want %q", method, path, origin, got, want)
				}
				if r.header.Get("Access-Control-Allow-Credentials") != "" {
					t.Errorf("%s %s lets cookies through", method, path)
				}
				if want != "" && !strings.Contains(strings.Join(r.header["Vary"], ","), "Origin") {
					t.Errorf("%s %s: caches may mix origins up", method, path)
				}
			}
		}
	}
	pre := do(
		t,
		request(t, http.MethodOptions, s.URL+"/oauth/token", "", map[string]string{"Origin": "https://spa.example", "Access-Control-Request-Method": "POST"}),
	)
	if pre.code != http.StatusNoContent || pre.header.Get("Access-Control-Allow-Methods") != "POST" || pre.header.Get("Access-Control-Allow-Headers") == "" {
		t.Errorf("%d %v", pre.code, pre.header)
	}
}
