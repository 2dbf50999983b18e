package logins

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	cdpwebauthn "github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"kapis.dev/ks-apiserver/pkg/oauth/page"

	"kapis.dev/ks-apiserver/tools/logins/chromium"
)

// keyholder is a user as the library of passkeys sees them.
type keyholder struct{ keys []webauthn.Credential }

func (*keyholder) WebAuthnID() []byte                           { return []byte("uid-alice") }
func (*keyholder) WebAuthnName() string                         { return "alice" }
func (*keyholder) WebAuthnDisplayName() string                  { return "Alice" }
func (k *keyholder) WebAuthnCredentials() []webauthn.Credential { return k.keys }

// ceremony shows the pages of passkeys, and has the library verify what the script sends.
type ceremony struct {
	t    *testing.T
	book *page.Book
	rp   *webauthn.WebAuthn

	mu      sync.Mutex
	holder  keyholder
	data    *webauthn.SessionData
	verdict error
}

func (c *ceremony) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.book.Assets().File(strings.TrimPrefix(r.URL.Path, "/oauth/static/")); a != nil {
		w.Header().Set("Content-Type", a.Type)
		_, _ = w.Write(a.Content)
		return
	}
	var d page.Data
	key := &page.Passkey{Form: "x", Step: "passkey"}
	switch {
	case r.Method == http.MethodPost:
		d = page.Notice{Title: page.Say("account.passkeys"), Text: page.Say("done.passkey")}
		if c.verdict = c.judge(r); c.verdict != nil {
			d = page.Notice{Title: page.Say("error.title"), Text: page.Say("error.passkey")}
		}
	case r.URL.Path == "/oauth/account":
		options, data, err := c.rp.BeginRegistration(&c.holder, webauthn.WithResidentKeyRequirement(protocol.ResidentKeyRequirementRequired),
			webauthn.WithExclusions(webauthn.Credentials(c.holder.keys).CredentialDescriptors()))
		c.data, key.Options, key.Call, key.Action, key.Naming = data, c.options(options, err), "create", "account", true
		d = page.AddPasskey{Passkey: key}
	default:
		options, data, err := c.rp.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
		c.data, key.Options, key.Call, key.Action = data, c.options(options, err), "get", "login"
		d = page.Login{Passkey: key}
	}
	out, err := c.book.Draw(page.English, "", d)
	if err != nil {
		c.t.Error(err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; form-action 'self'")
	_, _ = w.Write(out)
}

func (c *ceremony) options(v any, err error) string {
	if err != nil {
		c.t.Error(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		c.t.Error(err)
	}
	return string(b)
}

// judge has the library verify the result of a ceremony.
func (c *ceremony) judge(r *http.Request) error {
	body := []byte(r.PostFormValue("response"))
	if r.URL.Path == "/oauth/account" {
		parsed, err := protocol.ParseCredentialCreationResponseBytes(body)
		if err != nil {
			return err
		}
		made, err := c.rp.CreateCredential(&c.holder, *c.data, parsed)
		if err == nil {
			c.holder.keys = append(c.holder.keys, *made)
		}
		return err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(body)
	if err != nil {
		return err
	}
	_, err = c.rp.ValidateDiscoverableLogin(func(_, id []byte) (webauthn.User, error) {
		if !bytes.Equal(id, c.holder.WebAuthnID()) {
			c.t.Errorf("the passkey names user %q", id)
		}
		return &c.holder, nil
	}, *c.data, parsed)
	return err
}

// The script of passkeys speaks to the browser on one side, and as WebAuthn Level 3 writes JSON on the other.
func TestScriptOfPasskeysSpeaksWebAuthn(t *testing.T) {
	book, err := page.Open()
	if err != nil {
		t.Fatal(err)
	}
	c := &ceremony{t: t, book: book}
	w := serve(t, c)
	if c.rp, err = webauthn.New(&webauthn.Config{RPID: "localhost", RPDisplayName: "ks", RPOrigins: []string{w.URL}}); err != nil {
		t.Fatal(err)
	}
	b := w.open(t, chromium.Desktop())
	chromium.Call(b, cdpwebauthn.Enable, cdpwebauthn.EnableParams{})
	device := chromium.Call(b, cdpwebauthn.AddVirtualAuthenticator, cdpwebauthn.AddVirtualAuthenticatorParams{Options: &cdpwebauthn.VirtualAuthenticatorOptions{
		Protocol: cdpwebauthn.AuthenticatorProtocolCtap2, Transport: cdpwebauthn.AuthenticatorTransportInternal,
		HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
	}})
	b.Visit(w.URL + "/oauth/account")
	b.Sees("Add a passkey")
	b.Inspect("passkey-add-desktop")
	b.TabTo("form[data-passkey] button")
	b.Types(kb.Enter)
	b.Sees("Passkeys")
	b.Visit(w.URL + "/oauth/login")
	b.Sees("Log in")
	b.Inspect("login-passkey-desktop")
	b.TabTo("form[data-passkey] button")
	b.Types(kb.Enter)
	b.Sees("Passkeys")
	if c.verdict != nil || len(c.holder.keys) != 1 {
		t.Error(c.verdict, len(c.holder.keys))
	}
	// The user is not verified: the page says so, and allows another attempt.
	chromium.Call(b, cdpwebauthn.SetUserVerified, cdpwebauthn.SetUserVerifiedParams{AuthenticatorID: device.AuthenticatorID})
	b.Visit(w.URL + "/oauth/login")
	b.Sees("Log in")
	b.TabTo("form[data-passkey] button")
	b.Types(kb.Enter)
	b.Do(chromedp.WaitVisible("form[data-passkey] [role=alert]"))
	if text := chromium.Eval[string](b, `document.querySelector("form[data-passkey] [role=alert]").innerText`); !strings.Contains(text, "No passkey was used") {
		t.Error(text)
	}
	if !chromium.Eval[bool](b, `document.activeElement.matches("form[data-passkey] button") && !document.activeElement.disabled`) {
		t.Error("the button has not got the focus back")
	}
	b.Quiet()
}
