package oauth

import (
	"errors"
	"net/http"
	"net/url"
	"testing"

	"kapis.dev/ks-apiserver/pkg/iam/session"
)

// A replica that has just started has not read the Secrets of clients and identity providers yet: it does not say that one does not exist, does not
// take the secret that the configuration file has for one, and tells no page that nobody is logged in. What needs neither goes on.
func TestWhatIsNotReadYetIsNotToldToBeUnknown(t *testing.T) {
	unread := errors.New("the Secrets are not read yet")
	f := newReplicas(t, 1, func(s *settings) { s.edit = func(o *Options) { o.Loaded = func() error { return unread } } })
	s := f.servers[0]
	form := func(path string, pairs url.Values) reply { return s.form(t, path, pairs, nil) }
	get := func(path string) reply { return do(t, request(t, http.MethodGet, s.URL+path, "", nil)) }
	asks := map[string]func() reply{
		"ALogin":          func() reply { return s.post(t, consoleLogin("alice", password), nil) },
		"AnUnknownClient": func() reply { return s.post(t, credentialsOf("late", "its-secret-its-secret"), nil) },
		"AWrongSecret":    func() reply { return s.post(t, credentialsOf("harbor", "new-secret-in-a-secret"), nil) },
		"Introspection": func() reply {
			return form("/oauth/introspect", url.Values{"client_id": {"harbor"}, "client_secret": {"x"}, "token": {"x"}})
		},
		"Revocation": func() reply {
			return form("/oauth/revoke", url.Values{"client_id": {"harbor"}, "client_secret": {"x"}, "token": {"x"}})
		},
		"ADevice": func() reply { return form("/oauth/device_authorization", url.Values{"client_id": {"late"}}) },
		"AnAuthorization": func() reply {
			return get("/oauth/authorize?response_type=code&client_id=late&redirect_uri=https://late.example")
		},
		"AProvider":         func() reply { return get("/oauth/login/late") },
		"ACallback":         func() reply { return get("/oauth/callback/late?code=c&state=s") },
		"TheAccount":        func() reply { return get("/oauth/account") },
		"ACodeOfTheConsole": func() reply { return get("/oauth/callback/late?code=c") },
		"ALogout":           func() reply { return get("/oauth/logout?post_logout_redirect_uri=https://late.example&client_id=late") },
	}
	for name, ask := range asks {
		if r := ask(); r.code != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %v %s, want 503 and Retry-After", name, r.code, r.header, r.text)
		}
	}
	for _, path := range []string{"/oauth/keys", "/.well-known/openid-configuration"} {
		if r := get(path); r.code != http.StatusOK {
			t.Errorf("%s: %d", path, r.code)
		}
	}
	if len(f.sessions) > 0 {
		t.Errorf("%d sessions", len(f.sessions))
	}
	unread = nil
	for name, ask := range asks {
		if r := ask(); r.code == http.StatusServiceUnavailable {
			t.Errorf("%s, once all is read: %d %s", name, r.code, r.text)
		}
	}
}

// A code of the console names a session that was opened before it was given: where the session is not known yet, it is read.
func TestACodeWhoseSessionIsNotKnownYetIsNotBad(t *testing.T) {
	w := newPageTest(t)
	w.knows("alice")
	p := w.person(t)
	state := p.away("/oauth/login/github?redirect_uri=" + url.QueryEscape(consoleURI))
	code := p.open("/oauth/callback/github?code=c&state=" + state).handedOver(t).Get("code")
	fresh, err := session.New(session.Options{API: w.sessions.API, Users: w.users, Keys: w.sessions.Keys, Lifetime: w.sessions.Lifetime, Now: w.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	redeem := func() reply {
		return do(t, request(t, http.MethodGet, w.URL+"/oauth/callback/github?code="+url.QueryEscape(code), "", map[string]string{"Accept": "*/*"}))
	}
	known := w.oauth.consoleCodes.Sessions
	w.oauth.consoleCodes.Sessions = fresh
	w.setDown(true)
	if r := redeem(); r.code != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
		t.Errorf("%d %v %s", r.code, r.header, r.text)
	}
	w.setDown(false)
	if r := redeem(); r.code != http.StatusOK {
		t.Errorf("where it is not known: %d %s", r.code, r.text)
	}
	w.oauth.consoleCodes.Sessions = known
	if r := redeem(); r.code != http.StatusUnauthorized {
		t.Errorf("again, where it is known: %d %s", r.code, r.text)
	}
}
