package product

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/pquerna/otp/totp"

	"kapis.dev/ks-apiserver/tools/logins/chromium"
)

const newPassword = "An0ther-Secret"

// code is what an authenticator app shows some steps of 30 s from now. Each works once.
func code(t *testing.T, secret string, steps int) string {
	t.Helper()
	c, err := totp.GenerateCode(secret, time.Now().Add(time.Duration(steps)*30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// enrol sets up an authenticator app on the person's own page, by keyboard, and returns its secret.
func enrol(t *testing.T, b *chromium.Browser) string {
	t.Helper()
	b.Sees("Your account")
	b.Press(`[value=totp]`)
	b.Sees("Set up an authenticator app")
	b.Press("summary")
	secret := strings.ReplaceAll(chromium.Eval[string](b, `document.querySelector(".secret").innerText`), " ", "")
	b.TabTo("#code")
	b.Types(code(t, secret, 0), kb.Enter)
	b.Sees("Your recovery codes")
	b.Press("a.button")
	b.Sees("Your account")
	return secret
}

func TestFirstPasswordThenAuthenticatorAppOnThePhone(t *testing.T) {
	addUser(t, "erin", true)
	p := newParty(t, "gitlab")
	b := open(t, chromium.Phone(), p)
	b.Visit(product.issuer + "/oauth/login")
	b.Sees("Log in")
	b.Login("erin", password)
	b.Sees("Choose a new password")
	b.Inspect("product-password")
	b.TabTo("#new")
	b.Types(newPassword)
	b.TabTo("#repeat")
	b.Types(newPassword, kb.Enter)
	secret := enrol(t, b)
	b.Press(`[value=logout]`)
	b.Sees("You are logged out")

	j := p.begin()
	b.Visit(j.address)
	b.Sees("Log in")
	b.Login("erin", password)
	complaint(t, b, "The name or the password is wrong.") // the first one is over
	retry(b, newPassword)
	b.Sees("One more step")
	b.TabTo("#code")
	b.Types("000000", kb.Enter)
	complaint(t, b, "The code is wrong")
	b.TabTo("#code")
	b.Types(code(t, secret, 1), kb.Enter)
	p.allow(b)
	if _, who := p.finish(t, b, j); who.Name != "erin" || who.Email != "erin@example.com" {
		t.Errorf("%+v", who)
	}
	b.Quiet()
}

// The console sends the second factor of a password as grant_type=otp.
func TestAuthenticatorAppCompletesThePasswordGrant(t *testing.T) {
	addUser(t, "frank", false)
	p := newParty(t, "jenkins")
	b := open(t, chromium.Desktop(), p)
	b.Visit(product.issuer + "/oauth/login")
	b.Sees("Log in")
	b.Login("frank", password)
	secret := enrol(t, b)
	b.Quiet()

	var pending string
	status, answer := grant(t, url.Values{"grant_type": {"password"}, "username": {"frank"}, "password": {password}})
	if pending, _ = answer["mfa_token"].(string); status != http.StatusBadRequest || answer["error"] != "mfa_required" || pending == "" ||
		answer["access_token"] != nil {
		t.Fatalf("%d %v", status, answer)
	}
	second := func(otp string) (int, map[string]any) {
		return grant(t, url.Values{"grant_type": {"otp"}, "token": {pending}, "otp": {otp}})
	}
	if status, answer := second("000000"); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
		t.Errorf("a wrong code: %d %v", status, answer)
	}
	last := code(t, secret, 1)
	if status, answer := second(last); status != http.StatusOK || answer["access_token"] == nil {
		t.Errorf("%d %v", status, answer)
	}
	if status, answer := second(last); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
		t.Errorf("the same code again: %d %v", status, answer)
	}
}
