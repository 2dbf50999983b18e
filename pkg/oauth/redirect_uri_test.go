package oauth

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// T6749-7, T6749-24, T9700-1, T9700-10: what may be registered.
func TestRedirectURIsThatMayBeRegistered(t *testing.T) {
	for _, uri := range []string{"https://app.example/cb", "https://app.example/cb?a=b", "https://app.example:8443", "http://127.0.0.1/cb", "http://127.0.0.1:8000/cb", "http://[::1]:1/cb",
		"http://localhost/cb", "com.example.app:/cb", "com.example.app://cb"} {
		if err := checkRedirectURI(uri, true); err != nil {
			t.Errorf("%s: %v", uri, err)
		}
	}
	for _, uri := range []string{"", "/cb", "app.example/cb", "//app.example/cb", "https:app.example", "https:///cb", "https://app.example/cb#x", "https://app.example/cb#", "https://*.example/cb",
		"https://app.example/*", "https://u@app.example/cb", "https://u:canary@app.example/cb", "http://app.example/cb", "http://127.0.0.1.evil.example/cb", "http://127.0.0.1:x/cb",
		"http://localhost.evil.example", "http://10.0.0.1/cb", "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "myapp:/cb", "vbscript:x", `https:\\app.example`, "https://app.example/ x",
		"https://app.example/\r\nX: y", "https://app.example/ü", "https://app.example/%zz", strings.Repeat("https://app.example/", 200), "https://:443/cb"} {
		if err := checkRedirectURI(uri, true); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v", uri, err)
		}
	}
	if checkRedirectURI("com.example.app:/cb", false) == nil {
		t.Error("a client with a secret has a scheme of its own")
	}
}

// A URI that may not be registered is left out and told of; the client goes on with the others.
func TestBadRedirectURIIsLeftOut(t *testing.T) {
	c := &Client{Name: "a", Secret: "x", RedirectURIs: []string{"http://app.example/cb", "https://app.example/cb"}}
	if p := c.problems(); len(p) != 1 || !strings.Contains(p[0], "redirectURIs[0]") {
		t.Errorf("%q", p)
	}
	if uri, ok := c.redirectURI(""); !ok || uri != "https://app.example/cb" {
		t.Errorf("%q", uri)
	}
	if _, ok := c.redirectURI("http://app.example/cb"); ok {
		t.Error("http is taken")
	}
	tab := &clientTable{clients: map[string]*Client{"a": c}}
	if tab.complete(); len(tab.problems) != 1 {
		t.Errorf("%q", tab.problems)
	}
}

func TestAnswerKeepsTheQuery(t *testing.T) {
	for uri, want := range map[string]string{
		"https://a/": "https://a/?k=v+%26", "https://a/?x=%2f&y": "https://a/?x=%2f&y&k=v+%26", "https://a/?": "https://a/?k=v+%26", "com.example:/cb": "com.example:/cb?k=v+%26",
	} {
		if got := answerTo(uri, "k", "v &", "empty", ""); string(got) != want {
			t.Errorf("%s: %s", uri, got)
		}
	}
}

// FuzzRedirectURI: whatever is asked for, the answer goes to what is registered, by the eyes of a parser too.
func FuzzRedirectURI(f *testing.F) {
	c := &Client{Name: "spa", RedirectURIs: []string{"https://spa.example/cb", "http://127.0.0.1/cb", "com.example.app:/cb"}}
	for _, seed := range []string{"https://spa.example/cb", "http://127.0.0.1:80/cb", "http://127.0.0.1:80@evil.example/cb", `http://127.0.0.1\@evil/cb`, "http://127.0.0.1:0000/cb", "//x", "\r\n", "http://[::1]/cb"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, requested string) {
		uri, ok := c.redirectURI(requested)
		if !ok {
			return
		}
		u, err := url.Parse(uri)
		if err != nil || uri != requested {
			t.Fatalf("%q gives %q, %v", requested, uri, err)
		}
		switch got := u.Scheme + "|" + u.Hostname() + "|" + u.Path + "|" + u.RawQuery + u.Fragment + u.User.String(); got {
		case "https|spa.example|/cb|", "http|127.0.0.1|/cb|", "com.example.app||/cb|":
		default:
			t.Errorf("%q goes to %s", requested, got)
		}
	})
}

// FuzzAuthorize: no query leads anywhere but to the registered URI.
func FuzzAuthorize(f *testing.F) {
	set := newReplicas(f, 1, nil)
	s := set.servers[0].oauth
	for _, seed := range []string{harborAsks().Encode(), spaAsks("prompt", "none").Encode(), "client_id=harbor&request_uri=http://127.0.0.1/", "%zz", "client_id=spa&redirect_uri=javascript:x", "state=%00%ff&client_id=harbor&max_age=99999999999999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/oauth/authorize", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.URL.RawQuery = query
		values, err := authorizeValues(r)
		if err != nil {
			return
		}
		a, c, err := s.clientAndRedirectURI(values)
		if err != nil {
			return
		}
		refusal := s.readAuthorization(a, c, values)
		if refusal == nil && (len(a.Scopes) == 0 && !c.Trusted || c.Secret == "" && a.Challenge == "" || len(a.State) > maxState) {
			t.Errorf("%q gives %+v", query, a)
		}
		to := string(s.redirectError(a, "x", "y"))
		if !strings.HasPrefix(to, a.RedirectURI) || strings.ContainsAny(to, "\r\n\x00 ") {
			t.Errorf("%q goes to %q", query, to)
		}
	})
}

// FuzzForms: the forms of revocation and introspection.
func FuzzForms(f *testing.F) {
	set := newReplicas(f, 1, nil)
	s := set.servers[0]
	access, refresh := s.login(f)
	for _, seed := range []string{asHarbor(access).Encode(), asHarbor(refresh).Encode(), "token=.....", "client_id=harbor&client_secret=harbor-secret-1234&token=a.1.", "%zz", "client_id=\xff"} {
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
