package oauth

import (
	"net/http"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// FuzzAuthorize checks that no query leads to a redirect to any URI but the registered one.
func FuzzAuthorize(f *testing.F) {
	set := newReplicas(f, 1, nil)
	s := set.servers[0].oauth
	for _, seed := range []string{harborAsks().Encode(), spaAsks("prompt", "none").Encode(), "client_id=harbor&request_uri=http://127.0.0.1/", "%zz",
		"client_id=spa&redirect_uri=javascript:x", "state=%00%ff&client_id=harbor&max_age=99999999999999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/oauth/authorize", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.URL.RawQuery = query
		a, c, refusal, err := s.authorize.Read(r)
		if err != nil {
			return
		}
		if refusal == "" && (len(a.Scopes) == 0 && !c.Trusted || c.Secret == "" && a.Challenge == "" || len(a.State) > protocol.MaxState) {
			t.Errorf("%q gives %+v", query, a)
		}
		to := string(s.authorize.RedirectError(a, "x", "y"))
		if !strings.HasPrefix(to, a.RedirectURI) || strings.ContainsAny(to, "\r\n\x00 ") {
			t.Errorf("%q goes to %q", query, to)
		}
	})
}

// FuzzForms checks the forms of revocation and introspection.
func FuzzForms(f *testing.F) {
	set := newReplicas(f, 1, nil)
	s := set.servers[0]
	access, refresh := s.login(f)
	for _, seed := range []string{asHarbor(access).Encode(), asHarbor(refresh).Encode(), "token=.....",
		"client_id=harbor&client_secret=harbor-secret-1234&token=a.1.", "%zz", "client_id=\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/oauth/revoke", "/oauth/introspect"} {
			r := do(t, request(t, http.MethodPost, s.URL+path, body, map[string]string{"Content-Type": "application/x-www-form-urlencoded"}))
			if r.code >= 500 || r.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s %q: %d %s", path, body, r.code, r.text)
			}
		}
	})
}
