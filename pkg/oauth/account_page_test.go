package oauth

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	"kapis.dev/ks-apiserver/pkg/oauth/account"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
)

func TestAccountShowsWhereThePersonIsLoggedIn(t *testing.T) {
	w := newPageTest(t)
	p := w.person(t)
	p.header["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36"
	p.login("alice")
	w.login(t) // the console
	bobs := w.person(t).login("bob")
	r := p.open("/oauth/account")
	r.says(t, http.StatusOK, "The alice", "alice@example.com", "This browser", "Chrome, Linux", "kubesphere", "127.0.0.1", "End all others")
	if strings.Count(r.text, `<li><div><strong>`) < 2 || strings.Contains(r.text, "bob") {
		t.Error(r.text)
	}
	if bobs.loggedIn() != "bob" {
		t.Error("bob")
	}
}

func TestAnonymousAccountIsTheLoginPage(t *testing.T) {
	newPageTest(t).person(t).open("/oauth/account").says(t, http.StatusOK, "Log in", `autocomplete="current-password"`)
}

func TestSessionsAreEndedByTheirOwner(t *testing.T) {
	w := newPageTest(t)
	p, phone, bob := w.person(t).login("alice"), w.person(t).login("alice"), w.person(t).login("bob")
	id := func(who string) string {
		for _, s := range w.sessions.Of("uid-" + who) {
			return s.Name
		}
		return ""
	}
	p.open("/oauth/account")
	p.answer("end:"+id("bob")).says(t, http.StatusBadRequest, "gone already")
	if bob.loggedIn() != "bob" {
		t.Fatal("alice ended bob's session")
	}
	p.open("/oauth/account")
	p.answer("end:"+id("alice")).goes(t, "account?done=ended")
	if phone.loggedIn() != "" || p.loggedIn() != "alice" {
		t.Error("the wrong session is ended")
	}
	phone.login("alice")
	w.login(t)
	p.open("/oauth/account")
	p.answer("end-others").goes(t, "account?done=others")
	p.open("/oauth/account?done=others").says(t, http.StatusOK, "All other sessions are ended.", `role="status"`)
	if phone.loggedIn() != "" || p.loggedIn() != "alice" || len(w.sessions.Of("uid-alice")) != 1 || bob.loggedIn() != "bob" {
		t.Error("others are there still, or bob is gone")
	}
}

// Changes to how a user logs in, or to what opens the account, need more than a logged-in browser.
func TestSensitiveChangesNeedARecentLogin(t *testing.T) {
	w := newPageTest(t)
	p := w.person(t).login("alice")
	w.clock.Step(browser.RecentFor + time.Second)
	for step, c := range w.oauth.account.Changes() {
		if !c.Sensitive || c.Form != formstate.Account {
			continue
		}
		p.open("/oauth/account")
		p.answer(step, "description", "ci", "days", "30").says(t, http.StatusOK, "Confirm that it is you", `value="alice"`)
	}
	if len(w.keys.list) != 0 || len(w.factors.removed) != 0 {
		t.Error("done without")
	}
	p.answer("password", "username", "alice", "password", password).goes(t, "account?done=fresh")
	p.open("/oauth/account?done=fresh").says(t, http.StatusOK, "You can go on now.")
	p.answer("key", "description", "ci", "days", "30").says(t, http.StatusOK, "ksk_once")
}

func TestChangesComeFromOurPage(t *testing.T) { // T6749-12
	w := newPageTest(t)
	p := w.person(t).login("alice")
	p.open("/oauth/account")
	v, to := p.fields("end-others")
	for name, header := range map[string]map[string]string{"cross-site": {"Sec-Fetch-Site": "cross-site"}, "origin": {"Origin": "https://evil.example"}} {
		if r := p.send(http.MethodPost, to, v.Encode(), header); r.code != http.StatusForbidden {
			t.Errorf("%s: %d", name, r.code)
		}
	}
	w.person(t).login("bob").send(http.MethodPost, to, v.Encode(), nil).says(t, http.StatusForbidden)
	p.send(http.MethodPost, to, with(v, "step", "nothing").Encode(), nil).says(t, http.StatusBadRequest)
	p.send(http.MethodPost, to, with(v, "step", "totp-confirm").Encode(), nil).says(t, http.StatusForbidden) // the form of another page
	clear(p.cookies)
	p.send(http.MethodPost, to, v.Encode(), nil).says(t, http.StatusForbidden)
}

func TestKeyIsShownOnce(t *testing.T) {
	w := newPageTest(t)
	p := w.person(t).login("alice")
	p.open("/oauth/account")
	for _, bad := range [][2]string{{"", "30"}, {" ", "30"}, {"ci", "31"}, {"ci", "x"}, {strings.Repeat("x", account.MaxDescription+1), "30"}} {
		p.answer("key", "description", bad[0], "days", bad[1]).says(t, http.StatusBadRequest, "Say what the key is for")
	}
	p.answer("key", "description", "ci", "days", "30", "scope", "write").says(t, http.StatusBadRequest, "This page has expired")
	p.answer("key", "description", "ci <b>", "days", "90").says(t, http.StatusOK, "ksk_once", "shown this once")
	if k := w.keys.list[0]; k.Description != "ci <b>" || !k.Expires.Equal(w.clock.Now().AddDate(0, 0, 90)) {
		t.Errorf("%+v", k)
	}
	r := p.open("/oauth/account")
	if r.says(t, http.StatusOK, "ci &lt;b&gt;"); strings.Contains(r.text, "ksk_once") || strings.Contains(r.text, "reads only") {
		t.Error("shown again, or as one for reading")
	}
	p.answer("key", "description", "reports", "days", "90", "scope", "read").says(t, http.StatusOK, "ksk_once")
	if got := w.keys.list; len(got) != 2 || got[0].Scope != "" || got[1].Scope != "read" {
		t.Errorf("%+v", got)
	}
	p.open("/oauth/account").says(t, http.StatusOK, "key-1 · reads only")
	p.answer("key-revoke:key-0").goes(t, "account?done=revoked")
	p.open("/oauth/account")
	p.answer("key-revoke:key-0").says(t, http.StatusBadRequest, "gone already")
}

func TestAuthenticatorIsSetUpByItsFirstCode(t *testing.T) {
	w := newPageTest(t)
	p := w.person(t).login("alice")
	p.open("/oauth/account").says(t, http.StatusOK, "Set up")
	p.answer("totp").says(t, http.StatusOK, "Scan this code", "<svg", "JBSW Y3DP EHPK 3PXP")
	p.answer("totp-confirm", "code", "000000").says(t, http.StatusBadRequest, "The code is wrong", "JBSW Y3DP EHPK 3PXP") // the same secret as before
	if w.factors.has.TOTP {
		t.Error("stored before the app has shown a code")
	}
	p.answer("totp-confirm", "code", otp).says(t, http.StatusOK, "recover-1", "recover-2", "shown this once")
	p.open("/oauth/account")
	p.answer("recovery").says(t, http.StatusOK, "recover-3")
	p.open("/oauth/account")
	p.answer("totp-remove").goes(t, "account?done=totp")
}

func TestSecretOfALoginIsNotSetUpOnAnAccount(t *testing.T) {
	w := newPageTest(t)
	w.gate.pending = true
	p := w.visitor(t)
	p.answer("password", "username", "bob", "password", password) // has to set up an app: the form state has an authentication result
	v, _ := p.fields("totp-confirm")
	p.cookies[browser.HostPrefix+browser.SessionCookie] = w.person(t).login2("alice").cookies[browser.HostPrefix+browser.SessionCookie]
	p.send(http.MethodPost, w.URL+"/oauth/account", with(v, "code", otp).Encode(), nil).says(t, http.StatusForbidden)
}

// login2 logs in a user who needs a second factor.
func (p *browserUser) login2(name string) *browserUser {
	p.site.gate.pending = false
	defer func() { p.site.gate.pending = true }()
	return p.login(name)
}

func TestPasskeysAreAddedAndRemoved(t *testing.T) {
	w := newPageTest(t)
	p := w.person(t).login("alice")
	p.open("/oauth/account")
	p.answer("passkey").says(t, http.StatusOK, `data-passkey="create"`)
	v, to := p.fields("passkey-add")
	p.answer("passkey-add", "response", "forged", "name", "Phone").says(t, http.StatusBadRequest, "The passkey was not accepted")
	p.send(http.MethodPost, to, with(v, "response", "touched", "name", " My <phone> ").Encode(), nil).goes(t, "account?done=passkey")
	p.open("/oauth/account").says(t, http.StatusOK, "My &lt;phone&gt;")
	if n := w.factors.has.Passkeys[0].Name; n != "My <phone>" {
		t.Error(n)
	}
	p.answer("passkey-remove:key-1").goes(t, "account?done=removed")
	if !slices.Equal(w.factors.removed, []string{"key-1"}) {
		t.Error(w.factors.removed)
	}
}

func TestNewPasswordEndsTheOtherSessions(t *testing.T) {
	w := newPageTest(t)
	p, phone := w.person(t).login("alice"), w.person(t).login("alice")
	p.open("/oauth/account")
	p.answer("password").says(t, http.StatusOK, "Current password", `autocomplete="current-password"`)
	p.answer("password-set", "current", "", "new", newPass, "repeat", newPass).says(t, http.StatusBadRequest, "wrong")
	p.answer("password-set", "current", "wrong", "new", newPass, "repeat", newPass).says(t, http.StatusBadRequest, "wrong")
	p.answer("password-set", "current", password, "new", newPass, "repeat", newPass+"x").says(t, http.StatusBadRequest, "differ")
	p.answer("password-set", "current", password, "new", newPass, "repeat", newPass).goes(t, "account?done=password")
	if p.loggedIn() != "alice" || phone.loggedIn() != "" {
		t.Errorf("%q %q", p.loggedIn(), phone.loggedIn())
	}
	q := w.visitor(t)
	q.answer("password", "username", "alice", "password", password).says(t, http.StatusBadRequest)
}

func TestPasswordOfAProviderIsNotOurs(t *testing.T) {
	w := newPageTest(t)
	w.knows("alice")
	p := w.person(t)
	p.open("/oauth/callback/github?code=c&state=" + p.away("/oauth/login/github"))
	if r := p.open("/oauth/account"); strings.Contains(r.text, "Change password") {
		t.Error("offered")
	}
	p.answer("password").says(t, http.StatusBadRequest, "account with a password of this platform")
}

func TestSignOutTakesTheCookiesAway(t *testing.T) {
	w := newPageTest(t)
	p := w.person(t).login("alice")
	p.open("/oauth/account")
	p.answer("logout").says(t, http.StatusOK, "You are logged out")
	if len(w.names()) != 0 || len(p.cookies) != 0 {
		t.Error(w.names(), p.cookies)
	}
}

func TestWhatIsNotOfferedIsNotShownNorDone(t *testing.T) {
	w := newPageTest(t)
	w.offer(nil, nil, func(*iam.User) factor.Enrolled { return factor.Enrolled{} }, nil, nil)
	p := w.person(t).login("alice")
	r := p.open("/oauth/account")
	for _, s := range []string{"API keys", "Passkeys", "Change password"} {
		if strings.Contains(r.text, s) {
			t.Errorf("%s is shown", s)
		}
	}
	for step, c := range w.oauth.account.Changes() {
		if step == "logout" || strings.HasPrefix(step, "end") || c.Form != formstate.Account {
			continue
		}
		p.open("/oauth/account")
		if r := p.answer(step, "description", "ci", "days", "30"); r.code != http.StatusNotFound && r.code != http.StatusBadRequest {
			t.Errorf("%s: %d", step, r.code)
		}
	}
	if r := w.visitor(t).page; strings.Contains(r.text, "passkey") {
		t.Error("a button without what is behind it")
	}
}

func TestUnavailableStoreIsSaid(t *testing.T) {
	w := newPageTest(t)
	p := w.visitor(t)
	w.setDown(true)
	p.answer("password", "username", "alice", "password", password).says(t, http.StatusServiceUnavailable, "at the moment")
	if p.page.header.Get("Retry-After") == "" || p.loggedIn() != "" {
		t.Error(p.page.header)
	}
}
