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

	"kapis.dev/ks-apiserver/tools/logins/chromium"
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

// account logs a user in on their account page.
func (w *site) account(t *testing.T, b *chromium.Browser) {
	t.Helper()
	b.Visit(w.URL + "/oauth/account")
	b.Sees("Log in")
	b.Login("alice", password)
	b.Sees("Your account")
}

func TestAuthenticatorAppAndRecoveryCode(t *testing.T) {
	w := newSite(t)
	b := w.open(t, chromium.Phone())
	w.account(t, b)
	b.Press(`[value=totp]`)
	b.Sees("Set up an authenticator app")
	b.Inspect("totp-phone")
	b.Press("summary")
	secret := strings.ReplaceAll(chromium.Eval[string](b, `document.querySelector(".secret").innerText`), " ", "")
	code, err := totp.GenerateCode(secret, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b.TabTo("#code")
	b.Types(code, kb.Enter)
	b.Sees("Your recovery codes")
	b.Inspect("recovery-phone")
	recovery := chromium.Eval[[]string](b, `[...document.querySelectorAll(".secret")].map((e) => e.innerText)`)
	b.Press("a.button")
	b.Sees("Your account")
	b.Inspect("account-phone")
	b.Press(`[value=logout]`)
	b.Sees("You are logged out")
	b.Visit(w.URL + "/oauth/login")
	b.Sees("Log in")
	b.Login("alice", password)
	b.Sees("One more step")
	b.Inspect("factor-phone")
	b.Press("summary")
	b.TabTo("#recovery")
	b.Types(recovery[0], kb.Enter)
	b.Sees("Your account")
	if left := w.factors.Of(w.users.ByName("alice")).RecoveryLeft; left != len(recovery)-1 {
		t.Error(left)
	}
	b.Quiet()
}

func TestPasskeyFromTheAccountLogsIn(t *testing.T) {
	w := newSite(t)
	b := w.open(t, chromium.Desktop())
	chromium.Call(b, webauthn.Enable, webauthn.EnableParams{})
	chromium.Call(b, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
		HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
	}})
	w.account(t, b)
	b.Press(`[value=passkey]`)
	b.Sees("Add a passkey")
	b.Press("form[data-passkey] button")
	b.Sees("Your account")
	b.Inspect("account-passkey-desktop")
	b.Press(`[value=logout]`)
	b.Sees("You are logged out")
	b.Visit(w.asks("Harbor"))
	b.Sees("Log in")
	b.Press("form[data-passkey] button")
	if q := w.arrived(t, b); q.Get("code") == "" {
		t.Error(q)
	}
	b.Visit(w.URL + "/oauth/logout")
	b.Sees("Log out?")
	b.Press(`[value=yes]`)
	b.Sees("You are logged out")
	b.Visit(w.asks("Harbor")) // and as the second factor
	b.Sees("Log in")
	b.Login("alice", password)
	b.Sees("One more step")
	b.Inspect("factor-passkey-desktop")
	b.Press("form[data-passkey] button")
	if q := w.arrived(t, b); q.Get("code") == "" {
		t.Error(q)
	}
	b.Quiet()
}

func TestKeyIsMadeOnTheAccount(t *testing.T) {
	w := newSite(t)
	b := w.open(t, chromium.Desktop())
	w.account(t, b)
	b.TabTo("#description")
	b.Types("nightly backup", kb.Enter)
	b.Sees("Your new API key")
	b.Inspect("key-desktop")
	if key := chromium.Eval[string](b, `document.querySelector(".secret").innerText`); !strings.HasPrefix(key, "ksk_") {
		t.Error(key)
	}
	b.Press("a.button")
	b.Sees("Your account")
	b.Press(`[value^="key-revoke:"]`)
	b.Do(chromedp.WaitVisible(`[role=status]`))
	b.Quiet()
}

func TestAccountAndLogout(t *testing.T) {
	w := newSite(t)
	b := w.open(t, chromium.Desktop())
	b.Visit(w.asks("Harbor"))
	b.Sees("Log in")
	b.Login("alice", password)
	w.arrived(t, b)
	b.Visit(w.URL + "/oauth/account")
	b.Sees("Your account")
	b.Inspect("account-desktop")
	b.TabTo(`[value=password]`)
	b.Types(kb.Enter)
	b.Sees("Choose a new password")
	b.TabTo("#current")
	b.Types(password)
	b.TabTo("#new")
	b.Types(newPass)
	b.TabTo("#repeat")
	b.Types(newPass, kb.Enter)
	b.Sees("Your account")
	b.Do(chromedp.WaitVisible(`[role=status]`))
	b.Visit(w.URL + "/oauth/logout")
	b.Sees("Log out?")
	b.Inspect("logout-desktop")
	b.TabTo(`[value=yes]`)
	b.Types(kb.Enter)
	b.Sees("You are logged out")
	b.Inspect("out-desktop")
	b.Quiet()
}
