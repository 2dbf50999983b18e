package client

import (
	"net/url"
	"strings"
	"testing"
)

// T6749-7, T6749-24, T9700-1, T9700-10: the URIs that may be registered.
func TestRedirectURIsThatMayBeRegistered(t *testing.T) {
	for _, uri := range []string{"https://app.example/cb", "https://app.example/cb?a=b", "https://app.example:8443", "http://127.0.0.1/cb",
		"http://127.0.0.1:8000/cb", "http://[::1]:1/cb",
		"http://localhost/cb", "com.example.app:/cb", "com.example.app://cb"} {
		if err := checkRedirectURI(uri, true); err != nil {
			t.Errorf("%s: %v", uri, err)
		}
	}
	for _, uri := range []string{"", "/cb", "app.example/cb", "//app.example/cb", "https:app.example", "https:///cb", "https://app.example/cb#x",
		"https://app.example/cb#", "https://*.example/cb",
		"https://app.example/*", "https://u@app.example/cb", "https://u:canary@app.example/cb", "http://app.example/cb", "http://127.0.0.1.evil.example/cb",
		"http://127.0.0.1:x/cb",
		"http://localhost.evil.example", "http://10.0.0.1/cb", "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "myapp:/cb", "vbscript:x",
		`https:\\app.example`, "https://app.example/ x",
		"https://app.example/\r\nX: y", "https://app.example/ü", "https://app.example/%zz", strings.Repeat("https://app.example/", 200), "https://:443/cb"} {
		if err := checkRedirectURI(uri, true); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v", uri, err)
		}
	}
	if checkRedirectURI("com.example.app:/cb", false) == nil {
		t.Error("a client with a secret has a scheme of its own")
	}
}

// A URI that may not be registered is left out and reported; the client's other URIs stay.
func TestBadRedirectURIIsLeftOut(t *testing.T) {
	c := &Client{Name: "a", Secret: "x", RedirectURIs: []string{"http://app.example/cb", "https://app.example/cb"}}
	if p := c.problems(); len(p) != 1 || !strings.Contains(p[0], "redirectURIs[0]") {
		t.Errorf("%q", p)
	}
	if uri, ok := c.RedirectURI(""); !ok || uri != "https://app.example/cb" {
		t.Errorf("%q", uri)
	}
	if _, ok := c.RedirectURI("http://app.example/cb"); ok {
		t.Error("http is taken")
	}
	tab := &table{clients: map[string]*Client{"a": c}}
	if tab.complete(); len(tab.problems) != 1 {
		t.Errorf("%q", tab.problems)
	}
}

// FuzzRedirectURI checks that every answer goes to a registered URI, as a URL parser reads it too.
func FuzzRedirectURI(f *testing.F) {
	c := &Client{Name: "spa", RedirectURIs: []string{"https://spa.example/cb", "http://127.0.0.1/cb", "com.example.app:/cb"}}
	for _, seed := range []string{"https://spa.example/cb", "http://127.0.0.1:80/cb", "http://127.0.0.1:80@evil.example/cb", `http://127.0.0.1\@evil/cb`,
		"http://127.0.0.1:0000/cb", "//x", "\r\n", "http://[::1]/cb"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, requested string) {
		uri, ok := c.RedirectURI(requested)
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
