package identity

import (
	"net/http"
	"strings"
	"testing"
)

func TestTheAuthorizationEndpointHasNoCORS(t *testing.T) {
	rule(t, "T9700-11")
	spa := newClient(t, client{ID: "spa", GrantMethod: "auto", RedirectURIs: []string{"https://spa.example/cb"}})
	b := here(t)
	for _, origin := range []string{"https://spa.example", "https://evil.example", "null", issuer} {
		for _, path := range []string{strings.TrimPrefix(spa.ask().address(), issuer), "/oauth/login", "/oauth/account", "/oauth/consent", "/oauth/device",
			"/oauth/logout", "/oauth/device_authorization", "/oauth/introspect", "/oauth/authenticate"} {
			for _, method := range []string{http.MethodOptions, http.MethodGet, http.MethodPost} {
				a := call(t, method, issuer+path, "", "Origin: "+origin, "Access-Control-Request-Method: GET")
				for name := range a.header {
					if strings.HasPrefix(name, "Access-Control-") {
						t.Errorf("%s %s from %s: %s", method, path, origin, name)
					}
				}
			}
		}
		p := b.open(t, spa.ask().address(), "Origin: "+origin)
		if p.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("from %s: %v", origin, p.header)
		}
	}
	t.Run("PagesOfPublicClientsMayCallTheOthers", func(t *testing.T) {
		for origin, allowed := range map[string]string{"https://spa.example": "https://spa.example", "https://evil.example": "",
			"https://spa.example.evil.example": "", "https://spaxexample": "",
			"HTTPS://SPA.EXAMPLE": "", "null": "", "https://harbor.example": ""} {
			for path, method := range map[string]string{"/oauth/token": http.MethodPost, "/oauth/userinfo": http.MethodGet, "/oauth/revoke": http.MethodPost,
				"/oauth/keys": http.MethodGet, openidDocument: http.MethodGet} {
				for _, method := range []string{http.MethodOptions, method} {
					a := call(t, method, issuer+path, "", "Origin: "+origin, "Access-Control-Request-Method: "+method)
					if got := a.header.Get("Access-Control-Allow-Origin"); got != allowed || a.header.Get("Access-Control-Allow-Credentials") != "" {
						t.Errorf("%s %s from %s: %q", method, path, origin, got)
					}
				}
			}
		}
	})
}

func TestNoFormIsSentOn(t *testing.T) {
	rule(t, "T9700-12")
	b := newBrowser(t)
	q := asking.ask()
	p := b.login(t, b.open(t, q.address()), bob, password)
	check := func(what string, p *page) {
		for _, hop := range p.hops {
			if hop.status >= 300 && hop.status < 400 && hop.status != http.StatusSeeOther && hop.status != http.StatusFound {
				t.Errorf("%s: %d", what, hop.status)
			}
		}
		if first := p.hops[0]; first.status >= 300 && first.status < 400 && first.status != http.StatusSeeOther {
			t.Errorf("%s is answered with %d", what, first.status)
		}
	}
	check("a login", p)
	consented := b.submit(t, p.shows(t, 200, "Allow asking?"), "answer", "allow")
	q.landed(t, consented)
	check("consent", consented)
	fresh := newBrowser(t)
	check("a login without a client", fresh.login(t, fresh.open(t, "/oauth/login"), bob, password))
	direct := newBrowser(t)
	q = harbor.ask()
	landed := direct.login(t, direct.open(t, q.address()), bob, password)
	q.landed(t, landed)
	check("a login that leads to the client", landed)
	check("a POST at the authorization endpoint", direct.post(t, "/oauth/authorize", harbor.ask().params))
	out := direct.submit(t, direct.open(t, "/oauth/logout").shows(t, 200, "Log out?"), "answer", "yes")
	check("a logout", out)
	// A path that is written in another way is not sent on with its form either.
	for _, path := range []string{"/oauth/login/", "/oauth//login", "/oauth/./login", "/oauth/token/", "//oauth/token"} {
		a := call(t, http.MethodPost, issuer+path, harbor.form("grant_type", "password", "username", bob, "password", password))
		if a.status == http.StatusTemporaryRedirect || a.status == http.StatusPermanentRedirect {
			t.Errorf("%s: %d", path, a.status)
		}
	}
}

func TestNobodyStatesAnIdentity(t *testing.T) {
	rule(t, "T9700-13")
	access := passwordLogin(t, bob).Access
	for _, headers := range [][]string{
		{"X-Remote-User: admin", "X-Remote-Group: system:masters"},
		{"X-KubeSphere-Authorization: Bearer " + admin(t)}, {"X-Kubesphere-Rawquery: x"},
		{"X-Forwarded-User: admin", "X-Forwarded-Email: admin@kubesphere.io", "X-Forwarded-Preferred-Username: admin"},
		{"X-Auth-Request-User: admin"}, {"Remote-User: admin"}, {"X-WEBAUTH-USER: admin"}, {"X-User: admin", "X-Groups: system:masters"},
		{"X-Client-Cert: x", "X-SSL-Client-S-DN: CN=admin,O=system:masters"},
		{"x-remote-user: admin", "X-Remote-User: admin"}, {"Connection: Authorization, X-Remote-User", "X-Remote-User: admin"},
	} {
		t.Run(headers[0], func(t *testing.T) {
			for _, base := range []string{issuer, product.URL} { // by TLS without a certificate, and without TLS
				a := call(t, http.MethodGet, base+"/api/v1/secrets", nil, headers...)
				if a.status != http.StatusForbidden || !strings.Contains(a.body, "system:anonymous") {
					t.Errorf("nobody is told %d %s", a.status, clip(a.body))
				}
				a = call(t, http.MethodGet, base+"/api/v1/secrets", nil, append(bearer(access), headers...)...)
				if a.status != http.StatusForbidden || !strings.Contains(a.body, `User \"bob\"`) {
					t.Errorf("bob is told %d %s", a.status, clip(a.body))
				}
				if a := call(t, http.MethodGet, base+"/oauth/userinfo", nil, headers...); a.status != http.StatusUnauthorized {
					t.Errorf("userinfo tells nobody %d %s", a.status, clip(a.body))
				}
				if a := call(t, http.MethodGet, base+"/oauth/userinfo", nil, append(bearer(access), headers...)...); a.field("preferred_username") != bob {
					t.Errorf("userinfo tells bob %d %s", a.status, clip(a.body))
				}
			}
			fresh := newBrowser(t)
			fresh.open(t, "/oauth/account", headers...).shows(t, 200, "Log in")
		})
	}
}

func TestPagesAreNotFramed(t *testing.T) {
	rule(t, "T9700-14")
	b := logIn(t, bob)
	fresh := newBrowser(t)
	d := desk.device(t)
	account := b.open(t, "/oauth/account").shows(t, 200, "Your account")
	pages := map[string]*page{
		"login":             fresh.open(t, "/oauth/login").shows(t, 200, "Log in"),
		"login of a client": fresh.open(t, harbor.ask().address()).shows(t, 200, "Log in"),
		"failed login":      fresh.login(t, fresh.open(t, "/oauth/login"), alice, "Wrong-123").shows(t, 400, "Log in"),
		"consent":           b.open(t, asking.ask("prompt", "consent").address()).shows(t, 200, "Allow asking?"),
		"account":           account,
		"device": b.open(t, "/oauth/device").
			shows(t, 200, "Connect a device"),
		"device with a code": b.findDevice(t, d.field("user_code")).shows(t, 200, "Connect desk?"),
		"wrong code":         b.findDevice(t, "WRONG-CODE").shows(t, 400, "Connect a device"),
		"logout":             b.open(t, "/oauth/logout").shows(t, 200, "Log out?"),
		"logged out":         fresh.open(t, "/oauth/logout").shows(t, 200, ""),
		"error":              fresh.open(t, "/oauth/authorize?client_id=nobody").shows(t, 400, ""),
		"missing": fresh.open(
			t,
			"/oauth/static/nothing",
		),
		"forged form":      fresh.post(t, "/oauth/login", values("form", "x")),
		"unknown provider": fresh.open(t, "/oauth/login/nobody"),
		"callback": fresh.open(
			t,
			"/oauth/callback/nobody?state=x&code=y",
		),
		"new app":  b.submit(t, account, "step", "totp"),
		"password": b.submit(t, account, "step", "password"),
	}
	for name, p := range pages {
		policy := p.header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") ||
			p.header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s may be framed: %d %v", name, p.status, p.header)
		}
		if p.header.Get("Cache-Control") != "no-store" || p.header.Get("X-Content-Type-Options") != "nosniff" || p.header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %d %v", name, p.status, p.header)
		}
		for _, c := range (&http.Response{Header: p.hops[0].header}).Cookies() {
			if !c.HttpOnly || !c.Secure || !strings.HasPrefix(c.Name, "__Host-") {
				t.Errorf("%s sets %v", name, c)
			}
		}
	}
}
