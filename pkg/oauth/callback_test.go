package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	iamaccount "kapis.dev/ks-apiserver/pkg/iam/account"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	iamlogin "kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/callback"
	"kapis.dev/ks-apiserver/pkg/oauth/console"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// knows makes a provider authenticate a person who is linked to a User.
func (w *pageTest) knows(name string) {
	w.github.id = &idp.Identity{Subject: "4711", Username: name}
	w.gate.proof = func(provider string, id *idp.Identity) (*iam.AuthnResult, error) {
		return &iam.AuthnResult{User: w.users.ByName(name), Provider: provider, Subject: id.Subject, Methods: []string{iam.MethodFederated}}, nil
	}
}

// away begins a login at GitHub, and returns its state.
func (p *browserUser) away(address string) string {
	p.t.Helper()
	r := p.open(address)
	if r.code != http.StatusFound || !strings.HasPrefix(r.header.Get("Location"), "https://idp.example/authorize?state=") {
		p.t.Fatalf("%d %v %s", r.code, r.header, r.text)
	}
	return p.site.github.begun.State
}

// button returns the address of the button of GitHub on the login page.
func (p *browserUser) button() string {
	p.t.Helper()
	_, rest, ok := strings.Cut(p.page.text, `href="login/github?form=`)
	if !ok {
		p.t.Fatal(p.page.text)
	}
	sealed, _, _ := strings.Cut(rest, `"`)
	return "/oauth/login/github?form=" + sealed
}

func TestProviderBringsThePersonBackToWhatTheClientAskedFor(t *testing.T) {
	w := newPageTest(t)
	w.knows("alice")
	p := w.person(t)
	p.open("/oauth/authorize?" + harborAsks("login_hint", "al").Encode())
	state := p.away(p.button())
	b := w.github.begun
	if b.Callback != issuerURL+"/oauth/callback/github" || b.LoginHint != "al" || b.Again {
		t.Errorf("%+v", b)
	}
	for _, s := range []string{b.State, b.Nonce, b.Verifier} { // S43
		if len(s) != 43 {
			t.Errorf("%+v has less than 256 bits", b)
		}
	}
	if q := p.open("/oauth/callback/github?code=c&state="+state).sentTo(t, harborURI); q.Get("code") == "" || q.Get("state") != "s" {
		t.Error(q)
	}
	if a := w.github.asked; a.Nonce != b.Nonce || a.Verifier != b.Verifier || a.Callback != b.Callback || a.Values.Get("code") != "c" {
		t.Errorf("%+v", a)
	}
	if p.loggedIn() != "alice" {
		t.Error(p.loggedIn())
	}
}

func TestEachLoginAtAProviderHasItsOwnSecrets(t *testing.T) { // S43
	w := newPageTest(t)
	p := w.person(t)
	seen := map[string]bool{}
	for range 50 {
		p.away("/oauth/login/github")
		for _, s := range []string{w.github.begun.State, w.github.begun.Nonce, w.github.begun.Verifier} {
			if seen[s] {
				t.Fatal("the same secret twice")
			}
			seen[s] = true
		}
	}
}

// S41, T9700-17: a callback counts in the browser that began the login, for the provider where it began, once and in time.
func TestForeignCallbacksLogNobodyIn(t *testing.T) {
	for name, c := range map[string]func(t *testing.T, w *pageTest, p *browserUser, state string) reply{
		"NoState": func(_ *testing.T, _ *pageTest, p *browserUser, _ string) reply {
			return p.open("/oauth/callback/github?code=c")
		},
		"EmptyState": func(_ *testing.T, _ *pageTest, p *browserUser, _ string) reply {
			return p.open("/oauth/callback/github?code=c&state=")
		},
		"OtherState": func(_ *testing.T, _ *pageTest, p *browserUser, _ string) reply {
			return p.open("/oauth/callback/github?code=c&state=" + browser.RandomSecret())
		},
		"StateTwice": func(_ *testing.T, _ *pageTest, p *browserUser, s string) reply {
			return p.open("/oauth/callback/github?code=c&state=" + s + "&state=" + s)
		},
		"OtherBrowser": func(t *testing.T, w *pageTest, _ *browserUser, s string) reply {
			return w.person(t).open("/oauth/callback/github?code=c&state=" + s)
		},
		"OtherProvider": func(_ *testing.T, _ *pageTest, p *browserUser, s string) reply { // mix-up (T9700-16)
			p.cookies[browser.HostPrefix+callback.CookieName("google")] = &http.Cookie{Name: browser.HostPrefix + callback.CookieName("google"),
				Value: p.cookies[browser.HostPrefix+callback.CookieName("github")].Value}
			return p.open("/oauth/callback/google?code=c&state=" + s)
		},
		"Replayed": func(t *testing.T, w *pageTest, p *browserUser, s string) reply {
			w.github.err = idp.ErrRefused
			p.open("/oauth/callback/github?code=c&state="+s).says(t, http.StatusBadRequest)
			w.github.err = nil
			return p.open("/oauth/callback/github?code=c&state=" + s)
		},
		"TooLate": func(_ *testing.T, w *pageTest, p *browserUser, s string) reply {
			w.clock.Step(callback.PendingLoginLife + time.Second)
			return p.open("/oauth/callback/github?code=c&state=" + s)
		},
		"TamperedCookie": func(_ *testing.T, _ *pageTest, p *browserUser, s string) reply {
			c := p.cookies[browser.HostPrefix+callback.CookieName("github")]
			first := "A"
			if c.Value[0] == 'A' {
				first = "B"
			}
			c.Value = first + c.Value[1:]
			return p.open("/oauth/callback/github?code=c&state=" + s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPageTest(t)
			w.knows("alice")
			p := w.person(t)
			r := c(t, w, p, p.away("/oauth/login/github"))
			r.says(t, http.StatusBadRequest, "was not begun in this browser")
			if p.loggedIn() != "" || w.written() != 0 {
				t.Error("somebody is logged in")
			}
		})
	}
}

func TestProviderMayAnswerWithAForm(t *testing.T) {
	w := newPageTest(t)
	w.knows("alice")
	p := w.person(t)
	state := p.away("/oauth/login/github")
	c := p.cookies[browser.HostPrefix+callback.CookieName("github")]
	if c.SameSite != http.SameSiteNoneMode || !c.Secure || !c.HttpOnly { // it comes with a form of another site
		t.Error(c)
	}
	r := p.send(http.MethodPost, "/oauth/callback/github", url.Values{"state": {state}, "code": {"c"}}.Encode(), map[string]string{"Sec-Fetch-Site": "cross-site"})
	r.goes(t, "../account")
	if p.loggedIn() != "alice" || p.cookies[browser.HostPrefix+callback.CookieName("github")] != nil {
		t.Error("not logged in, or the cookie is still there")
	}
}

func TestFaultsOfProvidersAreTheirs(t *testing.T) {
	w := newPageTest(t)
	w.knows("alice")
	for err, want := range map[error]struct {
		code int
		say  string
	}{
		idp.ErrRefused:     {http.StatusBadRequest, "GitHub did not confirm who you are."},
		idp.ErrUnavailable: {http.StatusServiceUnavailable, "GitHub does not answer."},
	} {
		w.github.err = err
		p := w.person(t)
		p.open("/oauth/authorize?" + harborAsks().Encode())
		r := p.open("/oauth/callback/github?code=c&state=" + p.away(p.button()))
		r.says(t, want.code, want.say, "to go on to harbor") // and another way to log in
	}
	w.github.err = nil
	w.gate.proof = func(string, *idp.Identity) (*iam.AuthnResult, error) { return nil, iam.ErrNotLinked }
	p := w.person(t)
	p.open("/oauth/callback/github?code=c&state="+p.away("/oauth/login/github")).says(t, http.StatusForbidden, "no account")
	for _, name := range []string{"ldap", "off", "broken", "nobody"} {
		w.person(t).open("/oauth/login/"+name).says(t, http.StatusNotFound, "does not exist, or is switched off")
	}
	w.github.err = errors.New("canary-of-a-secret")
	r := p.open("/oauth/callback/github?code=c&state=" + p.away("/oauth/login/github"))
	if r.says(t, http.StatusInternalServerError); strings.Contains(r.text, "canary") {
		t.Error(r.text)
	}
}

func TestWhoIsLoggedInProvesHimselfAnewAtTheProvider(t *testing.T) {
	w := newPageTest(t)
	p := w.person(t).login("alice")
	if p.away("/oauth/login/github"); !w.github.begun.Again {
		t.Error("the provider may answer by its cookie")
	}
}

func TestRequestThatFitsIntoNoCookieIsRefused(t *testing.T) {
	w := newPageTest(t)
	p := w.person(t)
	p.open("/oauth/authorize?" + harborAsks("state", strings.Repeat("s", protocol.MaxState)).Encode())
	p.open(p.button()).says(t, http.StatusBadRequest, "too long for this way to log in")
}

func TestPersonChoosesHisNameOnce(t *testing.T) {
	w := newPageTest(t)
	w.github.id = &idp.Identity{Subject: "4711"}
	w.gate.proof = func(provider string, id *idp.Identity) (*iam.AuthnResult, error) {
		return &iam.AuthnResult{Provider: provider, Subject: id.Subject,
			Registration: &iam.Registration{Provider: provider, Subject: id.Subject, Username: "octo", Email: "o@example.com"}}, nil
	}
	p := w.person(t)
	p.open("/oauth/callback/github?code=c&state="+p.away("/oauth/login/github")).
		says(t, http.StatusOK, "Complete your account", `value="octo"`, `value="o@example.com"`)
	for _, bad := range [][3]string{{"Octo", "o@example.com", "lower-case"}, {"octo", "nonsense", "not an e-mail"}, {"octo", "A <o@example.com>", "not an e-mail"},
		{"system:admin", "o@example.com", "lower-case"}} {
		p.answer("register", "username", bad[0], "email", bad[1]).says(t, http.StatusBadRequest, bad[2])
	}
	p.answer("register", "username", "taken", "email", "o@example.com").says(t, http.StatusConflict, "can't be used")
	if w.written() != 0 {
		t.Error("a session is open already")
	}
	v, to := p.fields("register")
	// S41: the form can't choose the identity, and another browser can't send the form.
	other := w.visitor(t)
	other.send(http.MethodPost, to, with(v, "username", "mallory", "provider", "google", "subject", "1").Encode(), nil).says(t, http.StatusForbidden)
	p.answer("register", "username", "octo", "email", "o@example.com").goes(t, "account")
	if p.loggedIn() != "octo" {
		t.Error(p.loggedIn())
	}
}

// The console does not use OAuth: its server redeems the code that the browser brings.
func TestConsoleRedeemsWhatItsBrowserBrings(t *testing.T) {
	w := newPageTest(t)
	w.knows("alice")
	p := w.person(t)
	state := p.away("/oauth/login/github?redirect_uri=" + url.QueryEscape(consoleURI) + "&state=theirs")
	q := p.open("/oauth/callback/github?code=c&state=" + state).handedOver(t)
	if q.Get("state") != "theirs" || q.Get("code") == "" || p.loggedIn() != "" {
		t.Error(q, p.loggedIn())
	}
	redeem := func(provider, code string) reply {
		return do(t, request(t, http.MethodGet, w.URL+"/oauth/callback/"+provider+"?code="+url.QueryEscape(code), "", map[string]string{"Accept": "*/*"}))
	}
	for name, r := range map[string]reply{"unknown": redeem("github", "x"), "none": redeem("github", ""), "of another provider": redeem("google", q.Get("code")),
		"an authorization code": redeem("github", w.authorizationCodeOf(t))} {
		if r.code != http.StatusUnauthorized || !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %d %v", name, r.code, r.header)
		}
	}
	r := redeem("github", q.Get("code"))
	if r.code != http.StatusOK || r.str("token_type") != "Bearer" || r.str("refresh_token") == "" || r.header.Get("Cache-Control") != "no-store" { // T6749-20
		t.Fatalf("%d %s", r.code, r.text)
	}
	if u := w.userinfo(t, r.str("access_token")); u.str("preferred_username") != "alice" {
		t.Error(u.text)
	}
	if r := w.post(t, renewal(r.str("refresh_token")), nil); r.code != http.StatusOK { // it is the console's own session
		t.Errorf("%d %s", r.code, r.text)
	}
	if r := redeem("github", q.Get("code")); r.code != http.StatusUnauthorized {
		t.Error("the code works twice")
	}
}

// handedOver returns the code that the browser brings to the console.
func (r reply) handedOver(t testing.TB) url.Values {
	t.Helper()
	u, err := url.Parse(r.header.Get("Location"))
	if err != nil || r.code != http.StatusFound || !strings.HasPrefix(u.String(), consoleURI+"?") {
		t.Fatalf("%d %v %s", r.code, r.header, r.text)
	}
	return u.Query()
}

func (w *pageTest) authorizationCodeOf(t testing.TB) string {
	t.Helper()
	return w.person(t).login("bob").open("/oauth/authorize?"+harborAsks().Encode()).sentTo(t, harborURI).Get("code")
}

func TestConsolesCodeExpires(t *testing.T) {
	w := newPageTest(t)
	w.knows("alice")
	p := w.person(t)
	q := p.open("/oauth/callback/github?code=c&state=" + p.away("/oauth/login/github?redirect_uri="+url.QueryEscape(consoleURI))).handedOver(t)
	w.clock.Step(console.CodeLife)
	if r := do(t, request(t, http.MethodGet, w.URL+"/oauth/callback/github?code="+q.Get("code"), "", nil)); r.code != http.StatusUnauthorized {
		t.Error(r.code)
	}
}

func TestBrowserIsSentBackToTheConsoleOnly(t *testing.T) { // S40
	w := newPageTest(t)
	p := w.person(t)
	for _, to := range []string{"https://evil.example", "//evil.example", `/\evil.example`, "https:evil.example", "%2f%2fevil.example", consoleURI + "/..",
		consoleURI + "@evil.example",
		strings.ToUpper(consoleURI), consoleURI + "?x=y", "javascript:alert(1)", harborURI, "/", "\r\nLocation: https://evil.example"} {
		r := p.open("/oauth/login/github?redirect_uri=" + url.QueryEscape(to))
		if r.says(t, http.StatusBadRequest, "not one that the platform"); r.header.Get("Location") != "" {
			t.Errorf("%q: sent to %s", to, r.header.Get("Location"))
		}
	}
}

// S12, S61: a user who logs in again has the groups that the provider reports now; no request changes the user that all
// requests of a session share.
func TestALoginAgainBringsTheGroupsOfNow(t *testing.T) {
	w := newPageTest(t)
	groups := []string{"dev"}
	w.knows("alice")
	w.gate.proof = func(provider string, id *idp.Identity) (*iam.AuthnResult, error) {
		return &iam.AuthnResult{
			User:     w.users.ByName("alice"),
			Provider: provider,
			Subject:  id.Subject,
			Groups:   groups,
			At:       w.clock.Now(),
			Methods:  []string{iam.MethodFederated},
		}, nil
	}
	p := w.person(t)
	name := ""
	for _, groups = range [][]string{{"dev"}, {"ops"}} {
		p.open("/oauth/callback/github?code=c&state=" + p.away("/oauth/login/github"))
		all := w.sessions.Of("uid-alice")
		if len(all) != 1 || !slices.Equal(all[0].Groups, groups) || name != "" && all[0].Name != name {
			t.Fatalf("%+v", all)
		}
		name = all[0].Name
	}

	b, _, err := w.oauth.logins.Admit(
		request(t, http.MethodGet, w.URL, "", nil),
		&iam.AuthnResult{User: w.users.ByName("bob"), At: w.clock.Now().Add(-time.Minute)},
	)
	if err != nil {
		t.Fatal(err)
	}
	if stored, _, err := w.sessions.Find(t.Context(), b.Session.Name); err != nil || stored == b.Session {
		t.Errorf("the session that is stored is the one that was changed: %v", err)
	}
}

// A user who needs a second factor sets it up after the registration, before they are logged in.
func TestWhoRegistersSetsUpTheFactorThatIsRequired(t *testing.T) {
	w := newPageTest(t)
	w.github.id = &idp.Identity{Subject: "4711", Username: "octo"}
	w.gate.proof = func(provider string, id *idp.Identity) (*iam.AuthnResult, error) {
		return &iam.AuthnResult{Provider: provider, Subject: id.Subject, At: w.clock.Now(), Methods: []string{iam.MethodPassword}, Pending: true,
			Registration: &iam.Registration{Provider: provider, Subject: id.Subject, Username: "octo", Email: "o@example.com"}}, nil
	}
	p := w.person(t)
	p.open("/oauth/callback/github?code=c&state=" + p.away("/oauth/login/github"))
	p.answer("register", "username", "octo", "email", "o@example.com").says(t, http.StatusOK, "JBSW Y3DP EHPK 3PXP")
	if who := p.loggedIn(); who != "" || len(w.sessions.Of("uid-octo")) > 0 {
		t.Errorf("%q is logged in", who)
	}
	p.answer("totp-confirm", "code", otp).says(t, http.StatusOK, "recover-1")
	p.answer("enrolled").goes(t, "account")
	if who := p.loggedIn(); who != "octo" {
		t.Errorf("%q is logged in", who)
	}
}

// The password grant has no page for this.
func TestThePasswordGrantRegistersNobodyWhoHasToHaveAFactor(t *testing.T) {
	f := newReplicas(t, 1, func(s *settings) {
		s.edit = func(o *Options) {
			o.Authenticator.Directory = idptest.Directory(t, &idp.Entry{Name: "corp", Mapping: idp.MapManual, Provider: corp{}})
			o.Authenticator.Accounts = iamaccount.New(iamaccount.Options{Users: o.Sessions.Users, Synced: func() bool { return true }})
			o.Authenticator.Factors, o.Authenticator.Policy = &factor.Store{}, iamlogin.FactorRequired
		}
	})
	r := f.servers[0].post(t, url.Values{"grant_type": {"password"}, "client_id": {"kubesphere"}, "client_secret": {"kubesphere"},
		"username": {"octo"}, "password": {password}, "provider": {"corp"}}, nil)
	if r.code != http.StatusBadRequest || r.str("error") != "invalid_grant" || !strings.Contains(r.text, "browser first") || len(f.sessions) > 0 {
		t.Errorf("%d %s", r.code, r.text)
	}
}

// corp is a directory that accepts every user.
type corp struct{ fakeLDAP }

func (corp) Login(_ context.Context, name, _ string) (*idp.Identity, error) {
	return &idp.Identity{Subject: name, Username: name}, nil
}
