package oauth

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

func TestLoginGoesOnWithWhatTheClientAskedFor(t *testing.T) {
	w := newPageTest(t)
	p := w.person(t)
	p.open("/oauth/authorize?"+harborAsks("state", "a b&c").Encode()).says(t, http.StatusOK, "to go on to harbor", "Continue with GitHub", "Company")
	if strings.Contains(p.page.text, "hidden") && strings.Contains(p.page.text, "Continue with hidden") || strings.Contains(p.page.text, "with off") {
		t.Error("a hidden or disabled provider is offered")
	}
	q := p.answer("password", "username", "alice", "password", password).sentTo(t, harborURI)
	if q.Get("code") == "" || q.Get("state") != "a b&c" || q.Get("iss") != issuerURL {
		t.Error(q)
	}
	if p.page.code != http.StatusSeeOther { // T9700-12
		t.Error(p.page.code)
	}
	// The second time the user is not asked.
	if q := p.open("/oauth/authorize?"+harborAsks().Encode()).sentTo(t, harborURI); q.Get("code") == "" {
		t.Error(q)
	}
}

func TestCookiesAreBoundToTheHostAndKeptFromScripts(t *testing.T) {
	w := newPageTest(t)
	p := w.person(t).login("alice")
	for _, name := range []string{"__Host-ks-session", "__Host-ks-login"} {
		c := p.cookies[name]
		if c == nil || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 0 {
			t.Errorf("%s: %v", name, c)
		}
	}
	if strings.Contains(p.cookies["__Host-ks-session"].Value, w.names()[0]) {
		t.Error("the cookie shows the name of the session")
	}
	if len(p.cookies["__Host-ks-login"].Value) < 43 {
		t.Error("the cookie that binds a login has less than 256 bits")
	}
	// The cookie that opens pages does not authenticate at the API (S32).
	if r := w.userinfo(t, p.cookies["__Host-ks-session"].Value); r.code != http.StatusUnauthorized {
		t.Error("the cookie is taken as a bearer token:", r.code)
	}
}

func TestUnknownWrongAndDisabledReadTheSame(t *testing.T) { // S50
	w := newPageTest(t)
	sealed := regexp.MustCompile(`name="form" value="[^"]*"|form=[^"]*"`)
	var first string
	for _, who := range [][2]string{{"alice", "wrong"}, {"nobody", password}, {"gone", "wrong"}} {
		p := w.person(t)
		p.open("/oauth/login")
		r := p.answer("password", "username", who[0], "password", who[1])
		r.says(t, http.StatusBadRequest, "The name or the password is wrong.", `role="alert"`)
		text := strings.ReplaceAll(sealed.ReplaceAllString(r.text, ""), who[0], "NAME")
		if first == "" {
			first = text
		}
		if text != first {
			t.Errorf("%s reads differently", who[0])
		}
		if p.loggedIn() != "" {
			t.Error("logged in")
		}
	}
}

func TestEachFaultOfALoginIsSaid(t *testing.T) {
	w := newPageTest(t)
	for err, want := range map[error]struct {
		code int
		say  string
	}{
		iam.ErrSuspended:       {http.StatusForbidden, "suspended"},
		iam.ErrLimited:         {http.StatusTooManyRequests, "Too many wrong attempts"},
		iam.ErrBusy:            {http.StatusServiceUnavailable, "Try again in a few seconds"},
		iam.ErrUnavailable:     {http.StatusServiceUnavailable, "at the moment"},
		iam.ErrNotLinked:       {http.StatusForbidden, "no account"},
		iam.ErrUnknownProvider: {http.StatusBadRequest, "does not exist"},
	} {
		w.gate.err = err
		p := w.person(t)
		p.open("/oauth/login")
		p.answer("password", "username", "alice", "password", password).says(t, want.code, want.say, `value="alice"`)
	}
	w.gate.err = nil
	p := w.person(t)
	p.open("/oauth/login")
	p.answer("password", "username", "alice", "password", password, "provider", "ldap").says(t, http.StatusServiceUnavailable, "Company does not answer",
		`<option value="ldap" selected>`)
}

// S42, T6749-12, S38: a form is accepted only from this server's page, in the browser that got it, and until it expires.
func TestForeignFormsLogNobodyIn(t *testing.T) {
	for name, c := range map[string]struct {
		header map[string]string
		edit   func(*pageTest, *browserUser, url.Values)
	}{
		"OriginOfAnotherSite":    {header: map[string]string{"Sec-Fetch-Site": "", "Origin": "https://evil.example"}},
		"OriginThatEndsLikeOurs": {header: map[string]string{"Sec-Fetch-Site": "", "Origin": "https://127.0.0.1.evil.example"}},
		"CrossSite":              {header: map[string]string{"Sec-Fetch-Site": "cross-site"}},
		"SiblingDomain":          {header: map[string]string{"Sec-Fetch-Site": "same-site"}},
		"NoSlip":                 {edit: func(_ *pageTest, _ *browserUser, v url.Values) { v.Del("form") }},
		"ForgedSlip":             {edit: func(_ *pageTest, _ *browserUser, v url.Values) { v.Set("form", v.Get("form")[1:]+"A") }},
		"StateOfAnotherForm": {edit: func(w *pageTest, p *browserUser, v url.Values) {
			v.Set("form", w.sealedFormFor(t, p, formstate.Consent))
		}},
		"NoCookie":                {edit: func(_ *pageTest, p *browserUser, _ url.Values) { clear(p.cookies) }},
		"SlipOfAnotherBrowserS38": {edit: func(w *pageTest, p *browserUser, _ url.Values) { p.cookies = w.visitor(t).cookies }},
		"OldSlip":                 {edit: func(w *pageTest, _ *browserUser, _ url.Values) { w.clock.Step(formstate.Life + time.Second) }},
		"ProofThatNobodyShowed":   {edit: func(_ *pageTest, _ *browserUser, v url.Values) { v.Set("step", "password-new") }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPageTest(t)
			p := w.visitor(t)
			v, to := p.fields("password")
			v.Set("username", "alice")
			v.Set("password", password)
			if c.edit != nil {
				c.edit(w, p, v)
			}
			header := map[string]string{"Sec-Fetch-Site": "same-origin"}
			for k, x := range c.header {
				header[k] = x
			}
			p.send(http.MethodPost, to, v.Encode(), header).says(t, http.StatusForbidden)
			if len(w.names()) != 0 || p.cookies[browser.HostPrefix+browser.SessionCookie] != nil {
				t.Error("somebody is logged in")
			}
		})
	}
}

// visitor returns a person who sees the login page.
func (w *pageTest) visitor(t testing.TB) *browserUser {
	t.Helper()
	p := w.person(t)
	p.open("/oauth/login").says(t, http.StatusOK)
	return p
}

// sealedFormFor returns a valid form state of a browser for a given form.
func (w *pageTest) sealedFormFor(t testing.TB, p *browserUser, n formstate.Name) string {
	t.Helper()
	r := request(t, http.MethodGet, w.URL, "", nil)
	r.AddCookie(p.cookies[browser.HostPrefix+browser.BindingCookie])
	s, _, err := w.oauth.forms.Seal(r, n, formstate.State{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOwnPagesMaySayNothingOfTheirOrigin(t *testing.T) {
	w := newPageTest(t)
	for name, header := range map[string]map[string]string{
		"an old browser": {"Origin": w.URL}, "an old browser that tells nothing": {"Origin": "null"}, "no browser": {},
		"a browser": {"Sec-Fetch-Site": "same-origin", "Origin": "null"},
	} {
		p := w.visitor(t)
		v, to := p.fields("password")
		if r := p.send(http.MethodPost, to, with(v, "username", "alice", "password", password).Encode(), header); r.code != http.StatusSeeOther {
			t.Errorf("%s: %d", name, r.code)
		}
	}
}

func TestNothingIsKeptOfWhoIsNotLoggedIn(t *testing.T) { // S58
	w := newPageTest(t)
	for range 20 {
		p := w.visitor(t)
		p.open("/oauth/authorize?" + harborAsks().Encode())
		p.answer("password", "username", "alice", "password", "wrong")
		p.open("/oauth/login/github")
		p.open("/oauth/device?user_code=BCDF-GHJK-LMNP")
	}
	if n := w.written(); n != 0 {
		t.Errorf("%d writes", n)
	}
}

func TestEveryPageIsGuarded(t *testing.T) { // S42, T9700-14
	w := newPageTest(t)
	in := w.person(t).login("alice")
	pages := map[string]reply{
		"login": w.person(t).open("/oauth/login"), "authorize": w.person(t).open("/oauth/authorize?" + harborAsks().Encode()),
		"authorize, wrong client": w.person(t).open("/oauth/authorize?client_id=nobody"), "unknown provider": w.person(t).open("/oauth/login/nobody"),
		"callback": w.person(t).open("/oauth/callback/github?state=x&code=y"), "device": in.open("/oauth/device"), "account": in.open("/oauth/account"),
		"consent": in.open("/oauth/authorize?" + harborAsks("client_id", "argo", "redirect_uri", "https://argo.example/cb", "scope", "openid").Encode()),
		"logout":  in.open("/oauth/logout"), "signed out": w.person(t).open("/oauth/logout"),
		"bad form": w.person(t).send(http.MethodPost, "/oauth/login", "form=x", nil), "no form": w.person(t).send(http.MethodPost, "/oauth/account", "", nil),
		"no such file": w.person(t).open("/oauth/static/style.css"),
	}
	for name, r := range pages {
		h := r.header
		if !strings.HasPrefix(h.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %s %s", name, h.Get("Content-Type"), r.text)
		}
		for header, want := range map[string]string{"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin", "Access-Control-Allow-Origin": ""} {
			if h.Get(header) != want {
				t.Errorf("%s: %s is %q, want %q", name, header, h.Get(header), want)
			}
		}
		policy := h.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy lacks %s: %s", name, part, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Errorf("%s: %s", name, policy)
		}
		if len(r.text) > 20<<10 {
			t.Errorf("%s has %d bytes", name, len(r.text))
		}
	}
	// Clients that do not accept HTML get JSON.
	r := do(t, request(t, http.MethodGet, w.URL+"/oauth/authorize?client_id=nobody", "", map[string]string{"Accept": "application/json"}))
	if r.code != http.StatusBadRequest || r.str("error") != protocol.InvalidClient {
		t.Errorf("%d %s", r.code, r.text)
	}
}

func TestPolicyNamesWhereAFormMayLead(t *testing.T) {
	w := newPageTest(t)
	r := w.person(t).open("/oauth/authorize?" + harborAsks().Encode())
	if p := r.header.Get("Content-Security-Policy"); !strings.Contains(p, "form-action 'self' https:;") && !strings.HasSuffix(p, "form-action 'self' https:") {
		t.Error(p)
	}
	for address, want := range map[string]string{
		"https://a.example/cb?x=y": "https:", "http://127.0.0.1:8000/cb": "http://127.0.0.1:8000", "com.example.app:/cb": "com.example.app:",
		"http://[::1]:9/cb": "http:", "https://a.example;script-src *": "", "https://a'b.example/": "", "//evil": "", "x": "", "%": "", "": "",
	} {
		if got := page.Source(address); got != want {
			t.Errorf("source(%q) = %q, want %q", address, got, want)
		}
	}
}

func FuzzSource(f *testing.F) {
	for _, s := range []string{"https://a.example/cb", "com.example:/x", "http://[::1]/", "https://a;b/", "https://a b/", "a:'none'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := page.Source(s); strings.ContainsAny(got, "; ,'\"\r\n\t*") {
			t.Errorf("%q becomes %q", s, got)
		}
	})
}

func TestWhatOthersChooseIsShownAsText(t *testing.T) { // S59
	w := newPageTest(t)
	evil := w.person(t).open("/oauth/authorize?" + harborAsks("login_hint", `"><script>alert(1)</script>`).Encode())
	evil.says(t, http.StatusOK, `value="&#34;&gt;&lt;script&gt;`)
	p := w.person(t).login("alice")
	named := p.open("/oauth/authorize?" + url.Values{"response_type": {"code"}, "client_id": {script}, "scope": {"openid"}}.Encode())
	named.says(t, http.StatusOK, "Allow &lt;script&gt;")
	code := p.open("/oauth/device?user_code=" + url.QueryEscape(script))
	wrong := w.person(t).open("/oauth/login/" + url.PathEscape(script))
	for name, r := range map[string]reply{"hint": evil, "client": named, "code": code, "provider": wrong} {
		if strings.Contains(strings.ReplaceAll(r.text, `<script defer src="`, ""), "<script") {
			t.Errorf("%s: %s", name, r.text)
		}
	}
}

func TestAnotherPersonsLoginEndsTheFirst(t *testing.T) {
	w := newPageTest(t)
	p := w.person(t).login("alice")
	first := w.names()
	p.open("/oauth/authorize?"+harborAsks("prompt", "login").Encode()).says(t, http.StatusOK, "Confirm that it is you", `value="alice"`)
	p.answer("password", "username", "bob", "password", password).sentTo(t, harborURI)
	if p.loggedIn() != "bob" || len(w.names()) != 1 || w.names()[0] == first[0] {
		t.Error(p.loggedIn(), w.names())
	}
}

func TestSecondProofRenewsTheSession(t *testing.T) { // TCore-4
	w := newPageTest(t)
	p := w.person(t).login("alice")
	before := w.names()
	w.clock.Step(time.Hour)
	p.open("/oauth/authorize?"+harborAsks("max_age", "60").Encode()).says(t, http.StatusOK, "Confirm that it is you")
	p.answer("password", "username", "alice", "password", password).sentTo(t, harborURI)
	if after := w.names(); len(after) != 1 || after[0] != before[0] {
		t.Error("another session:", before, after)
	}
	if q := p.open("/oauth/authorize?"+harborAsks("max_age", "60").Encode()).sentTo(t, harborURI); q.Get("code") == "" {
		t.Error("the second proof does not count")
	}
}

func TestPlainHTTPIsForThisMachineOnly(t *testing.T) {
	w := newPageTest(t)
	w.oauth.logins.Cookies.Issuer = "http://ks.example"
	p := w.visitor(t) // on loopback
	if c := p.cookies[browser.BindingCookie]; c == nil || c.Secure {
		t.Error(p.cookies)
	}
	r := request(t, http.MethodGet, w.URL+"/oauth/login", "", map[string]string{"Accept": "text/html"})
	r.Host = "ks.example"
	do(t, r).says(t, http.StatusForbidden, "https")
}

func TestPagesSpeakChinese(t *testing.T) {
	w := newPageTest(t)
	p := w.person(t)
	p.header["Accept-Language"] = "zh-CN,zh;q=0.9"
	p.open("/oauth/login").says(t, http.StatusOK, `<html lang="zh">`, "登录")
	if p.page.header.Get("Vary") != "Accept-Language" || p.page.header.Get("Content-Language") != "zh" {
		t.Error(p.page.header)
	}
}

func TestAssetsAreKeptForever(t *testing.T) {
	w := newPageTest(t)
	p := w.visitor(t)
	for _, m := range regexp.MustCompile(`(?:href|src)="(static/[^"]+)"`).FindAllStringSubmatch(p.page.text, -1) {
		r := p.open("/oauth/" + m[1])
		if r.code != http.StatusOK || r.header.Get("Cache-Control") != "public, max-age=31536000, immutable" || r.header.Get("Pragma") != "" ||
			r.header.Get("X-Content-Type-Options") != "nosniff" || len(r.text) == 0 {
			t.Errorf("%s: %d %v", m[1], r.code, r.header)
		}
	}
}

func TestEveryPageIsKnownToTheChain(t *testing.T) {
	s := newPageTest(t).oauth
	for _, e := range s.pages() {
		path := "/oauth" + strings.NewReplacer("{provider}", "x", "{file}", "x").Replace(e.path)
		if !OwnsCredentials(path) || e.meta != "" {
			t.Errorf("%s does not check its own cookie, or is advertised", path)
		}
	}
	if OwnsCredentials("/oauth/keys") || OwnsCredentials("/oauth/loginx") || isPage("/kapis/login") {
		t.Error("other paths do")
	}
}
