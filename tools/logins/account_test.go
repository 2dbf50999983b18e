package logins

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/pquerna/otp/totp"
)

// deviceCode begins the login of a device, and returns the code that it shows.
func (w *site) deviceCode(t *testing.T) string {
	t.Helper()
	r, err := w.Client().PostForm("https://"+w.Listener.Addr().String()+"/oauth/device_authorization", url.Values{"client_id": {"kubectl"}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var answer struct {
		UserCode string `json:"user_code"`
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r.StatusCode, err)
	}
	return answer.UserCode
}

// press goes to a button by keyboard, and presses it.
func (b *browser) press(selector string) {
	b.t.Helper()
	b.tabTo(selector)
	b.types(kb.Enter)
}

// account logs somebody in on his own page.
func (w *site) account(b *browser) {
	b.t.Helper()
	b.visit(w.URL + "/oauth/account")
	b.sees("Log in")
	b.login("alice", password)
	b.sees("Your account")
}

func TestAuthenticatorAppAndRecoveryCode(t *testing.T) {
	w := newSite(t)
	b := w.open(t, phone)
	w.account(b)
	b.press(`[value=totp]`)
	b.sees("Set up an authenticator app")
	b.inspect("totp-phone")
	b.press("summary")
	secret := strings.ReplaceAll(eval[string](b, `document.querySelector(".secret").innerText`), " ", "")
	code, err := totp.GenerateCode(secret, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b.tabTo("#code")
	b.types(code, kb.Enter)
	b.sees("Your recovery codes")
	b.inspect("recovery-phone")
	recovery := eval[[]string](b, `[...document.querySelectorAll(".secret")].map((e) => e.innerText)`)
	b.press("a.button")
	b.sees("Your account")
	b.inspect("account-phone")
	b.press(`[value=logout]`)
	b.sees("You are logged out")
	b.visit(w.URL + "/oauth/login")
	b.sees("Log in")
	b.login("alice", password)
	b.sees("One more step")
	b.inspect("factor-phone")
	b.press("summary")
	b.tabTo("#recovery")
	b.types(recovery[0], kb.Enter)
	b.sees("Your account")
	if left := w.factors.Of(w.users.ByName("alice")).RecoveryLeft; left != len(recovery)-1 {
		t.Error(left)
	}
	b.quiet()
}

func TestPasskeyFromTheAccountLogsIn(t *testing.T) {
	w := newSite(t)
	b := w.open(t, desktop)
	call(b, webauthn.Enable, webauthn.EnableParams{})
	call(b, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
		HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
	}})
	w.account(b)
	b.press(`[value=passkey]`)
	b.sees("Add a passkey")
	b.press("form[data-passkey] button")
	b.sees("Your account")
	b.inspect("account-passkey-desktop")
	b.press(`[value=logout]`)
	b.sees("You are logged out")
	b.visit(w.asks("Harbor"))
	b.sees("Log in")
	b.press("form[data-passkey] button")
	if q := w.arrived(b); q.Get("code") == "" {
		t.Error(q)
	}
	b.visit(w.URL + "/oauth/logout")
	b.sees("Log out?")
	b.press(`[value=yes]`)
	b.sees("You are logged out")
	b.visit(w.asks("Harbor")) // and as the second factor
	b.sees("Log in")
	b.login("alice", password)
	b.sees("One more step")
	b.inspect("factor-passkey-desktop")
	b.press("form[data-passkey] button")
	if q := w.arrived(b); q.Get("code") == "" {
		t.Error(q)
	}
	b.quiet()
}

func TestKeyIsMadeOnTheAccount(t *testing.T) {
	w := newSite(t)
	b := w.open(t, desktop)
	w.account(b)
	b.tabTo("#description")
	b.types("nightly backup", kb.Enter)
	b.sees("Your new API key")
	b.inspect("key-desktop")
	if key := eval[string](b, `document.querySelector(".secret").innerText`); !strings.HasPrefix(key, "ksk_") {
		t.Error(key)
	}
	b.press("a.button")
	b.sees("Your account")
	b.press(`[value^="key-revoke:"]`)
	b.do(chromedp.WaitVisible(`[role=status]`))
	b.quiet()
}

func TestAccountAndLogout(t *testing.T) {
	w := newSite(t)
	b := w.open(t, desktop)
	b.visit(w.asks("Harbor"))
	b.sees("Log in")
	b.login("alice", password)
	w.arrived(b)
	b.visit(w.URL + "/oauth/account")
	b.sees("Your account")
	b.inspect("account-desktop")
	b.tabTo(`[value=password]`)
	b.types(kb.Enter)
	b.sees("Choose a new password")
	b.tabTo("#current")
	b.types(password)
	b.tabTo("#new")
	b.types(newPass)
	b.tabTo("#repeat")
	b.types(newPass, kb.Enter)
	b.sees("Your account")
	b.do(chromedp.WaitVisible(`[role=status]`))
	b.visit(w.URL + "/oauth/logout")
	b.sees("Log out?")
	b.inspect("logout-desktop")
	b.tabTo(`[value=yes]`)
	b.types(kb.Enter)
	b.sees("You are logged out")
	b.inspect("out-desktop")
	b.quiet()
}
