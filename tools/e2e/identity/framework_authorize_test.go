package identity

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestTheAuthorizationEndpointTakesGetAndPost(t *testing.T) {
	rule(t, "T6749-5")
	b := here(t)
	q := harbor.ask()
	q.redeem(t, q.code(t, b)).tokens(t)
	q = harbor.ask()
	q.redeem(t, q.landed(t, b.post(t, "/oauth/authorize", q.params))).tokens(t)
	// A POST whose parameters stand in the URL has none.
	b.visit(t, http.MethodPost, q.address(), "", nil).shows(t, http.StatusBadRequest, "")
}

func TestTheResponseTypeIsCode(t *testing.T) {
	rule(t, "T6749-6", "T9700-6")
	b := here(t)
	for kind, failed := range map[string]string{
		"": "invalid_request", "token": "unsupported_response_type", "id_token": "unsupported_response_type", "id_token token": "unsupported_response_type",
		"code token": "unsupported_response_type", "code id_token": "unsupported_response_type", "none": "unsupported_response_type",
		"CODE":      "unsupported_response_type",
		"code code": "unsupported_response_type",
	} {
		t.Run("response_type="+kind, func(t *testing.T) {
			q := harbor.ask("response_type", kind)
			storesNothing(t, func() {
				p := b.open(t, q.address())
				q.refused(t, p, failed)
				if p.to.Fragment != "" || strings.Contains(p.to.String(), "token=") {
					t.Errorf("tokens come through the browser: %s", p.to)
				}
			})
		})
	}
	for _, mode := range []string{"fragment", "form_post", "query.jwt", "web_message"} {
		q := harbor.ask("response_mode", mode)
		q.refused(t, b.open(t, q.address()), "invalid_request")
	}
	harbor.ask("response_mode", "query").code(t, b)
	// What the token endpoint gives is in no address either.
	implicit := harbor.form("grant_type", "implicit")
	call(t, http.MethodPost, issuer+"/oauth/token", implicit).fails(t, 400, "unsupported_grant_type")
}

func TestRedirectURIsKeepTheirQuery(t *testing.T) {
	rule(t, "T6749-7")
	b := here(t)
	for name, params := range map[string][]string{"Success": nil, "Error": {"response_type", "token"}} {
		q := portal.ask(append(params, "redirect_uri", portal.RedirectURIs[1])...)
		p := b.open(t, q.address())
		p.leads(t, portal.RedirectURIs[1])
		if !strings.HasPrefix(p.to.RawQuery, "a=b%20c&d&") {
			t.Errorf("%s: sent to %s", name, p.to)
		}
	}
	wrong := newClient(t, client{ID: "wrong", Secret: random(), RedirectURIs: []string{
		"https://wrong.example/cb#f",
		"https://wrong.example/cb#",
		"/cb",
		"cb",
		"//wrong.example/cb",
		"https:/cb",
		"https://",
		"https://*.wrong.example/cb",
		"https://u:p@wrong.example/cb",
	}})
	for _, uri := range wrong.RedirectURIs {
		storesNothing(t, func() { refusedPage(t, b.open(t, wrong.ask("redirect_uri", uri).address())) })
	}
	storesNothing(t, func() { refusedPage(t, b.open(t, wrong.ask("redirect_uri", "").address())) })
}

// refusedPage fails the test unless the page tells the person, and sends the browser nowhere.
func refusedPage(t *testing.T, p *page) {
	t.Helper()
	if p.to != nil || p.status != http.StatusBadRequest || p.header.Get("Location") != "" || len(p.hops) != 1 || p.header.Get("Refresh") != "" {
		t.Errorf("%d at %s, sent to %v: %s", p.status, p.address, p.to, clip(p.body))
		return
	}
	p.shows(t, http.StatusBadRequest, "")
}

func TestWhereNobodyIsSent(t *testing.T) {
	rule(t, "T6749-8", "T9700-2")
	for who, b := range map[string]*browser{"LoggedIn": here(t), "NotLoggedIn": newBrowser(t)} {
		for name, q := range map[string]*request{
			"AnUnknownClient":             client{ID: "nobody", RedirectURIs: []string{"https://nobody.example/cb"}}.ask(),
			"NoClient":                    harbor.ask("client_id", ""),
			"AnotherURI":                  harbor.ask("redirect_uri", "https://evil.example/cb"),
			"AnotherClientsURI":           harbor.ask("redirect_uri", portal.RedirectURIs[0]),
			"NoneOfSeveral":               portal.ask("redirect_uri", ""),
			"AnotherURIAndAnotherMistake": harbor.ask("redirect_uri", "https://evil.example/cb", "response_type", "token"),
			"AnotherURISilently":          harbor.ask("redirect_uri", "https://evil.example/cb", "prompt", "none"),
			"ARefusedClientsOtherURI":     refused.ask("redirect_uri", "https://evil.example/cb"),
		} {
			t.Run(who+"/"+name, func(t *testing.T) {
				storesNothing(t, func() {
					refusedPage(t, b.open(t, q.address()))
					refusedPage(t, b.post(t, "/oauth/authorize", q.params))
					a := call(t, http.MethodGet, q.address(), nil) // a program
					if a.status != http.StatusBadRequest || a.header.Get("Location") != "" {
						t.Errorf("a program is told %d %v", a.status, a.header)
					}
				})
			})
		}
	}
	// The only one that there is goes without saying.
	q := harbor.ask("redirect_uri", "")
	q.redeem(t, q.code(t, here(t))).tokens(t)
}

func TestTheStateComesBack(t *testing.T) {
	rule(t, "T6749-11")
	b := here(t)
	bytes := make([]byte, 0, 256)
	for i := range 256 {
		bytes = append(bytes, byte(i))
	}
	for name, state := range map[string]string{
		"Bytes": string(bytes), "Unicode": "状態 ✓ 🔑 é", "Syntax": "a=b&c=d#e?f+g%20h;i/\\\"'<>", "Long": strings.Repeat("s%", 2048),
		"LineEnds": "a\r\nSet-Cookie: x=y\r\n\r\n",
		"Spaces":   "  a  ", "Short": "0",
	} {
		t.Run(name, func(t *testing.T) {
			harbor.ask("state", state).code(t, b) // landed compares
			q := harbor.ask("state", state, "response_type", "token")
			q.refused(t, b.open(t, q.address()), "unsupported_response_type")
			q = harbor.ask("state", state, "prompt", "none")
			q.refused(t, newBrowser(t).open(t, q.address()), "login_required")
		})
	}
	t.Run("ThroughTheLoginPageAndConsent", func(t *testing.T) {
		q := asking.ask("state", string(bytes)+strings.Repeat("x", 2000))
		fresh := newBrowser(t)
		p := fresh.login(t, fresh.open(t, q.address()), bob, password).shows(t, http.StatusOK, "Allow asking?")
		q.landed(t, fresh.submit(t, p, "answer", "allow"))
		p = fresh.open(t, q.address())
		if p.to == nil { // asked again
			p = fresh.submit(t, p, "answer", "deny")
			q.refused(t, p, "access_denied")
		}
	})
}

func TestForgedConsentIsNone(t *testing.T) {
	rule(t, "T6749-12")
	b := logIn(t, bob)
	q := asking.ask()
	p := b.open(t, q.address()).shows(t, http.StatusOK, "Allow asking?")
	slip := p.form(t, values("answer", "allow")).fields.Get("form")
	victim := logIn(t, newUser(t, "victim"))
	anonymous := newBrowser(t)
	anonymous.open(t, "/oauth/login")
	good := values("form", slip, "answer", "allow")
	for name, c := range map[string]struct {
		b       *browser
		form    url.Values
		headers []string
	}{
		"FromAnotherSite":      {b, good, []string{"Sec-Fetch-Site: cross-site", "Origin: https://evil.example"}},
		"FromASiblingSite":     {b, good, []string{"Sec-Fetch-Site: same-site", "Origin: https://other.localhost"}},
		"ByAnOldBrowser":       {b, good, []string{"Origin: https://evil.example"}},
		"FromAnotherPort":      {b, good, []string{"Origin: https://localhost:1"}},
		"WithoutASlip":         {b, values("answer", "allow"), []string{"Sec-Fetch-Site: same-origin"}},
		"WithAMadeUpSlip":      {b, values("form", random(), "answer", "allow"), []string{"Sec-Fetch-Site: same-origin"}},
		"WithTheSlipOfAnother": {victim, good, []string{"Sec-Fetch-Site: same-origin"}},
		"ByNobody":             {anonymous, good, []string{"Sec-Fetch-Site: same-origin"}},
		"WithAChangedSlip":     {b, values("form", slip[:len(slip)-2]+"AA", "answer", "allow"), []string{"Sec-Fetch-Site: same-origin"}},
		"WithASlipOfAnotherKind": {b, values("form", b.open(t, "/oauth/device").form(t, values("step", "find")).fields.Get("form"), "answer", "allow"),
			[]string{"Sec-Fetch-Site: same-origin"}},
		"WithoutACookieOfItsOwn":  {newBrowser(t), good, []string{"Sec-Fetch-Site: same-origin"}},
		"WithTheSlipOfALoginPage": {b, values("form", loginSlip(t), "answer", "allow"), []string{"Sec-Fetch-Site: same-origin"}},
	} {
		t.Run(name, func(t *testing.T) {
			storesNothing(t, func() {
				got := c.b.post(t, "/oauth/consent", c.form, c.headers...)
				if got.status != http.StatusForbidden || got.to != nil {
					t.Errorf("%d, sent to %v", got.status, got.to)
				}
			})
		})
	}
	t.Run("TheEndpointItselfGivesNothingWithoutConsent", func(t *testing.T) {
		storesNothing(t, func() {
			b.open(t, q.address()).shows(t, http.StatusOK, "Allow asking?")
			b.post(t, "/oauth/authorize", q.params, "Sec-Fetch-Site: cross-site").shows(t, http.StatusOK, "Allow asking?")
			q := refused.ask()
			q.refused(t, b.open(t, q.address()), "access_denied")
		})
	})
	t.Run("AForgedLoginIsNone", func(t *testing.T) { // a person logged in as somebody else without his knowledge
		fresh := newBrowser(t)
		login := fresh.open(t, "/oauth/login").form(t, values("username", ""))
		login.fields.Set("username", bob)
		login.fields.Set("password", password)
		storesNothing(t, func() {
			for _, headers := range [][]string{{"Sec-Fetch-Site: cross-site"}, {"Origin: https://evil.example"}} {
				fresh.post(t, "/oauth/login", login.fields, headers...).is(t, http.StatusForbidden)
			}
			newBrowser(t).post(t, "/oauth/login", login.fields, "Sec-Fetch-Site: same-origin").is(t, http.StatusForbidden)
		})
	})
	q.landed(t, b.submit(t, p, "answer", "allow")) // what all of them tried was good in the right hands
}

func loginSlip(t *testing.T) string {
	t.Helper()
	return newBrowser(t).open(t, "/oauth/login").form(t, values("username", "")).fields.Get("form")
}

func TestWhatComesFromOutsideIsSanitised(t *testing.T) {
	rule(t, "T6749-24")
	b := here(t)
	for _, uri := range []string{
		"javascript:alert(1)", "JaVaScRiPt:alert(1)//https://harbor.example/cb", "data:text/html,<script>alert(1)</script>", "vbscript:x", "file:///etc/passwd",
		"about:blank",
		"https://harbor.example/cb\r\nSet-Cookie: a=b", "https://harbor.example/cb\x00", " https://harbor.example/cb", "https://harbor.example/cb\t",
	} {
		storesNothing(t, func() { refusedPage(t, b.open(t, harbor.ask("redirect_uri", uri).address())) })
	}
	t.Run("RegisteredOrNot", func(t *testing.T) {
		c := newClient(t, client{ID: "script", RedirectURIs: []string{"javascript:alert(1)", "data:text/html,x", "https://ok.example/cb"}})
		for _, uri := range c.RedirectURIs[:2] {
			refusedPage(t, b.open(t, c.ask("redirect_uri", uri).address()))
		}
	})
	t.Run("HeadersAreNotSplit", func(t *testing.T) {
		q := harbor.ask("state", "a\r\nX-Injected: yes\r\n\r\n<script>")
		p := b.open(t, q.address())
		q.landed(t, p)
		if p.header.Get("X-Injected") != "" || strings.ContainsAny(p.header.Get("Location"), "\r\n<>") {
			t.Errorf("%v", p.header)
		}
	})
	t.Run("PagesEscape", func(t *testing.T) {
		const script = `"><script>alert(1)</script><img src=x onerror=alert(1)>`
		fresh := newBrowser(t)
		for _, address := range []string{
			client{ID: script, RedirectURIs: []string{"x"}}.ask().address(), harbor.ask("login_hint", script).address(), harbor.ask("redirect_uri", script).address(),
			"/oauth/login/" + url.PathEscape(script), "/oauth/callback/x?state=" + url.QueryEscape(script), "/oauth/device?user_code=" + url.QueryEscape(script),
			"/oauth/logout?post_logout_redirect_uri=" + url.QueryEscape(script),
		} {
			for _, p := range []*page{fresh.open(t, address), b.open(t, address)} {
				if p.to == nil && strings.Contains(p.body, "<script>alert") || strings.Contains(p.body, "<img src=x") {
					t.Errorf("%s: %s", address, clip(p.body))
				}
				if kind := p.header.Get("Content-Type"); !strings.HasPrefix(kind, "text/html") && !strings.HasPrefix(kind, "application/json") && p.to == nil {
					t.Errorf("%s is of type %q", address, kind)
				}
			}
		}
		failed := fresh.login(t, fresh.open(t, "/oauth/login"), script, "x")
		if failed.status != http.StatusBadRequest || strings.Contains(failed.body, "<script>alert") {
			t.Errorf("%d %s", failed.status, clip(failed.body))
		}
	})
}
