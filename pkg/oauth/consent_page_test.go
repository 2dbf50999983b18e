package oauth

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	deviceflow "kapis.dev/ks-apiserver/pkg/oauth/device"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

const argoURI = "https://argo.example/cb"

// argoAsks is an authorization request that needs consent.
func argoAsks(pairs ...string) url.Values {
	return with(harborAsks("client_id", "argo", "redirect_uri", argoURI, "scope", "openid groups"), pairs...)
}

func TestConsentIsAskedOnceAndRemembered(t *testing.T) {
	w := newPageTest(t)
	p := w.person(t)
	p.open("/oauth/authorize?" + argoAsks().Encode())
	p.answer("password", "username", "alice", "password", password).says(t, http.StatusOK, "Allow argo?", "Logged in as alice", "see the groups that you are in",
		"You go on to argo.example.")
	if q := p.answer("", "answer", "allow").sentTo(t, argoURI); q.Get("code") == "" || q.Get("state") != "s" {
		t.Error(q)
	}
	if q := p.open("/oauth/authorize?"+argoAsks().Encode()).sentTo(t, argoURI); q.Get("code") == "" {
		t.Error("asked again:", q)
	}
	p.open("/oauth/authorize?"+argoAsks("scope", "openid offline_access").Encode()).says(t, http.StatusOK, "stay connected") // more scopes than before
	p.open("/oauth/authorize?"+argoAsks("prompt", "consent").Encode()).says(t, http.StatusOK, "Allow argo?")
	if q := p.answer("", "answer", "allow").sentTo(t, argoURI); q.Get("code") == "" {
		t.Error("prompt=consent asks for ever:", q)
	}
}

func TestNoIsToldTheClient(t *testing.T) {
	w := newPageTest(t)
	p := w.person(t).login("alice")
	p.open("/oauth/authorize?" + argoAsks().Encode())
	if q := p.answer("", "answer", "deny").sentTo(t, argoURI); q.Get("error") != protocol.AccessDenied || q.Get("iss") != issuerURL || q.Get("code") != "" {
		t.Error(q)
	}
	p.open("/oauth/authorize?"+argoAsks().Encode()).says(t, http.StatusOK, "Allow argo?")
	if r := p.answer("", "answer", "maybe"); r.code != http.StatusBadRequest || r.header.Get("Location") != "" {
		t.Error(r.code)
	}
}

func TestConsentIsGivenByWhoSawThePage(t *testing.T) { // T6749-12, S38, S42
	w := newPageTest(t)
	p := w.person(t).login("alice")
	p.open("/oauth/authorize?" + argoAsks().Encode())
	v, to := p.fields("")
	v.Set("answer", "allow")
	mallory := w.person(t).login("bob")
	p.send(http.MethodPost, to, v.Encode(), map[string]string{"Sec-Fetch-Site": "cross-site"}).says(t, http.StatusForbidden)
	mallory.send(http.MethodPost, to, v.Encode(), nil).says(t, http.StatusForbidden)
	// Another user has logged in in the same browser since then.
	p.open("/oauth/authorize?" + harborAsks("prompt", "login").Encode())
	p.answer("password", "username", "bob", "password", password)
	p.send(http.MethodPost, to, v.Encode(), nil).says(t, http.StatusForbidden)
}

func TestAnotherPersonMayLogInInstead(t *testing.T) {
	w := newPageTest(t)
	p := w.person(t).login("alice")
	p.open("/oauth/authorize?" + argoAsks("login_hint", "alice").Encode())
	r := p.answer("", "answer", "switch")
	r.says(t, http.StatusOK, "to go on to argo")
	if p.loggedIn() != "" || len(w.names()) != 0 || strings.Contains(r.text, `value="alice"`) {
		t.Error("still logged in:", p.loggedIn(), w.names())
	}
	p.answer("password", "username", "bob", "password", password).says(t, http.StatusOK, "Logged in as bob")
}

// deviceCode begins the login of a device, and returns its codes.
func (w *pageTest) deviceCode(t testing.TB) (device, user string) {
	t.Helper()
	r := do(t, request(t, http.MethodPost, w.URL+"/oauth/device_authorization", "client_id=cli", nil))
	if r.code != http.StatusOK {
		t.Fatalf("%d %s", r.code, r.text)
	}
	return r.str("device_code"), r.str("user_code")
}

func (w *pageTest) poll(t testing.TB, device string) reply {
	t.Helper()
	return w.post(t, url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {device}, "client_id": {"cli"}}, nil)
}

func TestDeviceIsLetInByWhoComparesTheCode(t *testing.T) { // T8628-6
	w := newPageTest(t)
	device, code := w.deviceCode(t)
	p := w.person(t)
	p.open("/oauth/device?user_code="+code).says(t, http.StatusOK, "Log in") // the user logs in first
	r := p.answer("password", "username", "alice", "password", password)
	if to := r.header.Get("Location"); r.code != http.StatusSeeOther || !strings.HasSuffix(to,
		"/oauth/device?user_code="+url.QueryEscape(strings.ReplaceAll(code, "-", ""))) &&
		!strings.HasSuffix(to, "/oauth/device?user_code="+code) {
		t.Fatal(r.code, to)
	}
	p.open("/oauth/device?user_code="+code).says(t, http.StatusOK, "Connect a device", `value="`+code+`"`) // filled in, not submitted
	if r := w.poll(t, device); r.str("error") != "authorization_pending" {
		t.Error("let in by an address:", r.text)
	}
	p.answer("find", "user_code", strings.ToLower(strings.ReplaceAll(code, "-", " "))).
		says(t, http.StatusOK, "Connect cli?", code, "it is a fraud", "Logged in as alice")
	p.answer("answer", "answer", "allow").says(t, http.StatusOK, "cli is logged in as you")
	w.clock.Step(deviceflow.PollInterval)
	if r := w.poll(t, device); r.code != http.StatusOK || r.str("access_token") == "" {
		t.Errorf("%d %s", r.code, r.text)
	}
}

func TestPageDeniesADeviceOnce(t *testing.T) {
	w := newPageTest(t)
	device, code := w.deviceCode(t)
	p := w.person(t).login("alice")
	p.open("/oauth/device")
	p.answer("find", "user_code", code)
	v, to := p.fields("answer")
	p.answer("answer", "answer", "deny").says(t, http.StatusOK, "was not given access")
	if r := w.poll(t, device); r.str("error") != protocol.AccessDenied {
		t.Error(r.text)
	}
	p.send(http.MethodPost, to, with(v, "answer", "allow").Encode(), nil).says(t, http.StatusConflict, "answered already")
}

func TestPageLimitsWrongUserCodes(t *testing.T) { // T8628-4
	w := newPageTest(t)
	p := w.person(t).login("alice")
	for i := range deviceflow.GuessesAtOnce {
		p.open("/oauth/device")
		if r := p.answer("find", "user_code", "BCDF-GHJK-LMNP"); r.code != http.StatusBadRequest && i < deviceflow.GuessesAtOnce-1 {
			t.Fatalf("%d: %d", i, r.code)
		}
	}
	_, code := w.deviceCode(t)
	p.open("/oauth/device")
	p.answer("find", "user_code", code).says(t, http.StatusTooManyRequests, "Too many wrong attempts")
}

func TestDeviceIsNotApprovedFromElsewhere(t *testing.T) { // S38, T6749-12
	w := newPageTest(t)
	_, code := w.deviceCode(t)
	mallory, p := w.person(t).login("bob"), w.person(t).login("alice")
	mallory.open("/oauth/device")
	mallory.answer("find", "user_code", code)
	v, to := mallory.fields("answer")
	before := w.written()
	p.send(http.MethodPost, to, with(v, "answer", "allow").Encode(), nil).says(t, http.StatusForbidden)
	p.send(http.MethodPost, to, "user_code="+code+"&step=answer&answer=allow", nil).says(t, http.StatusForbidden)
	if w.written() != before {
		t.Error("a device was let in")
	}
}

func TestLogoutIsConfirmed(t *testing.T) { // TLogout-4
	w := newPageTest(t)
	p := w.person(t).login("alice")
	p.open("/oauth/logout").says(t, http.StatusOK, "Log out?", "Logged in as alice")
	p.answer("", "answer", "no").says(t, http.StatusOK, "still logged in")
	if p.loggedIn() != "alice" {
		t.Fatal("an image on a page logs people out")
	}
	p.open("/oauth/logout")
	v, to := p.fields("")
	p.send(http.MethodPost, to, with(v, "answer", "yes").Encode(), map[string]string{"Sec-Fetch-Site": "cross-site"}).says(t, http.StatusForbidden)
	p.open("/oauth/logout")
	p.answer("", "answer", "yes").says(t, http.StatusOK, "You are logged out", "Log in again")
	if len(w.names()) != 0 || p.cookies[browser.HostPrefix+browser.SessionCookie] != nil || p.cookies[browser.HostPrefix+browser.BindingCookie] != nil {
		t.Error(w.names(), p.cookies)
	}
	p.open("/oauth/logout").says(t, http.StatusOK, "You are logged out")
	if r := do(t, request(t, http.MethodGet, w.URL+"/oauth/logout", "", nil)); r.str("message") != "success" { // the console's request
		t.Error(r.text)
	}
}

func TestLogoutGoesUpToTheProvider(t *testing.T) { // TLogout-6
	w := newPageTest(t)
	w.oauth.Directory = nil
	w.knows("alice")
	p := w.person(t)
	p.open("/oauth/callback/github?code=c&state=" + p.away("/oauth/login/github"))
	r := p.open("/oauth/logout")
	if policy := r.header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' https:") {
		t.Error(policy)
	}
	if policy := p.open("/oauth/account").header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' https:") {
		t.Error(policy)
	}
}

func TestLogoutWithAHintGoesUpToTheProvider(t *testing.T) { // TLogout-6: the hint ends the client's session, and the browser's with it
	w := newPageTest(t)
	w.knows("alice")
	p := w.person(t)
	p.open("/oauth/authorize?" + harborAsks().Encode())
	code := p.open("/oauth/callback/github?code=c&state="+p.away(p.button())).sentTo(t, harborURI).Get("code")
	id := w.redeem(t, code, nil).str("id_token")
	to := p.open("/oauth/logout?id_token_hint=" + id).header.Get("Location")
	if !strings.HasPrefix(to, "https://idp.example/logout?") || p.loggedIn() != "" {
		t.Errorf("sent to %q, logged in: %q", to, p.loggedIn())
	}
}

func TestScopesAreSaidInWords(t *testing.T) {
	for _, c := range []struct {
		scopes []string
		words  int
		first  string
	}{{[]string{"openid", "api"}, 2, "scope.openid"}, {[]string{"email"}, 1, "scope.email"}, {[]string{"x"}, 1, "scope.other"}} {
		if got := page.ScopeWords(c.scopes); len(got) != c.words || got[0][0] != c.first {
			t.Errorf("%v: %v", c.scopes, got)
		}
	}
	for _, s := range client.SupportedScopes() {
		if page.ScopeWords([]string{s})[0][0] == "scope.other" {
			t.Errorf("there is no text for scope %s", s)
		}
	}
}

// RFC 8252, 8.6: a consent to an application on the user's machine counts for one login only, since another application can take its name.
func TestApplicationsOnTheMachineAskEachTime(t *testing.T) {
	w := newPageTest(t)
	p := w.person(t).login("alice")
	ask := func(client, uri string, pairs ...string) url.Values {
		return spaAsks(append([]string{"client_id", client, "redirect_uri", uri}, pairs...)...)
	}
	for uri, each := range map[string]bool{"http://127.0.0.1:4711/cb": true, "https://localhost/cb": true, "com.example.native:/cb": true,
		"https://native.example/cb": false} {
		for range 2 {
			p.open("/oauth/authorize?"+ask("native", uri, "prompt", "consent").Encode()).says(t, http.StatusOK, "Allow native?")
			if q := p.answer("", "answer", "allow").sentTo(t, uri); q.Get("code") == "" {
				t.Errorf("%s: asks for ever: %v", uri, q)
			}
		}
		if q := p.open("/oauth/authorize?"+ask("native", uri, "prompt", "none").Encode()).sentTo(t, uri); (q.Get("error") == "consent_required") != each {
			t.Errorf("%s: %v", uri, q)
		}
	}
	if q := p.open("/oauth/authorize?"+ask("spa", "http://127.0.0.1:4711/cb").Encode()).
		sentTo(t, "http://127.0.0.1:4711/cb"); q.Get("code") == "" { // grantMethod: auto
		t.Errorf("it is asked about: %v", q)
	}
}
