package account

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/login"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// Factors are the second factors on the account page. Features that are nil are not offered.
type Factors struct {
	Book     *page.Book
	Forms    *formstate.Forms
	Setup    *login.TOTPSetup
	TOTP     TOTP
	Passkeys Passkeys
	// Enrolled returns which second factors a user has.
	Enrolled func(*iam.User) factor.Enrolled
}

// beginTOTP shows the secret of a new authenticator app. It is stored after its first code.
func (s *Factors) beginTOTP(r *http.Request, b *browser.Login, _ protocol.Form) (any, error) {
	if err := login.Offered(s.TOTP != nil); err != nil {
		return nil, err
	}
	uri, sealed, err := s.TOTP.BeginTOTP(b.User)
	if err != nil {
		return nil, err
	}
	return s.Setup.Show(r, formstate.State{Session: b.Session.Name},
		formstate.Enrolment{User: b.User.Name, URI: uri, Sealed: sealed, Action: "account"}, 0, nil)
}

// confirmTOTP takes the first code of a new authenticator app.
func (s *Factors) confirmTOTP(r *http.Request, b *browser.Login, f protocol.Form) (any, error) {
	p, err := s.Forms.Open(r, formstate.TOTP, f["form"])
	if err == nil {
		err = login.Offered(s.TOTP != nil)
	}
	if err != nil {
		return nil, err
	}
	if p.Enrolment == nil || p.Result != nil {
		return nil, formstate.Stale(errors.New("the form is that of a login"))
	}
	recovery, err := s.TOTP.ConfirmTOTP(r.Context(), b.User, p.Enrolment.Sealed, login.Digits(f["code"]))
	if err == nil {
		return s.showRecoveryCodes(recovery), nil
	}
	return s.Setup.Failed(r, p, err)
}

// showRecoveryCodes answers with recovery codes, which are shown once.
func (s *Factors) showRecoveryCodes(codes []string) any {
	return s.Book.Show(0, page.Secret{Title: page.Say("secret.recovery"), Text: page.Say("secret.text"), Values: codes, Action: "account"}, nil)
}

// removeTOTP removes the authenticator app.
func (s *Factors) removeTOTP(r *http.Request, b *browser.Login, _ protocol.Form) (any, error) {
	if err := login.Offered(s.TOTP != nil); err != nil {
		return nil, err
	}
	if err := s.TOTP.RemoveTOTP(r.Context(), b.User); err != nil {
		return nil, err
	}
	return back(r, "totp")
}

// newRecoveryCodes replaces the recovery codes.
func (s *Factors) newRecoveryCodes(r *http.Request, b *browser.Login, _ protocol.Form) (any, error) {
	if err := login.Offered(s.TOTP != nil); err != nil {
		return nil, err
	}
	codes, err := s.TOTP.NewRecovery(r.Context(), b.User)
	if err != nil {
		return nil, err
	}
	return s.showRecoveryCodes(codes), nil
}

// beginPasskey shows the page that creates a passkey.
func (s *Factors) beginPasskey(r *http.Request, b *browser.Login, _ protocol.Form) (any, error) {
	if err := login.Offered(s.Passkeys != nil); err != nil {
		return nil, err
	}
	options, challenge, err := s.Passkeys.BeginPasskey(b.User)
	if err != nil {
		return nil, err
	}
	form, set, err := s.Forms.Seal(r, formstate.AddPasskey, formstate.State{Session: b.Session.Name, Challenge: challenge})
	if err != nil {
		return nil, err
	}
	d := page.AddPasskey{Passkey: &page.Passkey{Form: form, Step: "passkey-add", Root: page.Root(r), Action: "account", Call: "create",
		Options: string(options), Naming: true}}
	return s.Book.Show(0, d, nil, set), nil
}

// maxKeyName is the length of the name of a passkey, in characters.
const maxKeyName = 64

// addPasskey stores a new passkey.
func (s *Factors) addPasskey(r *http.Request, b *browser.Login, f protocol.Form) (any, error) {
	if err := login.Offered(s.Passkeys != nil); err != nil {
		return nil, err
	}
	name := strings.TrimSpace(f["name"])
	if name == "" || utf8.RuneCountInString(name) > maxKeyName || !utf8.ValidString(name) {
		name = "Passkey"
	}
	if err := s.Passkeys.AddPasskey(r.Context(), b.User, f["challenge"], name, []byte(f["response"])); err != nil {
		return nil, err
	}
	return back(r, "passkey")
}

// removePasskey removes a passkey.
func (s *Factors) removePasskey(r *http.Request, b *browser.Login, f protocol.Form) (any, error) {
	if err := login.Offered(s.Passkeys != nil); err != nil {
		return nil, err
	}
	if err := s.Passkeys.RemovePasskey(r.Context(), b.User, f["id"]); err != nil {
		return nil, err
	}
	return back(r, "removed")
}

// TOTP stores authenticator apps and recovery codes.
type TOTP interface {
	BeginTOTP(*iam.User) (uri, sealed string, err error)
	ConfirmTOTP(ctx context.Context, u *iam.User, sealed, code string) (recovery []string, err error)
	RemoveTOTP(context.Context, *iam.User) error
	NewRecovery(context.Context, *iam.User) ([]string, error)
}

// Passkeys stores passkeys.
type Passkeys interface {
	BeginPasskey(*iam.User) (options []byte, sealed string, err error)
	AddPasskey(ctx context.Context, u *iam.User, sealed, name string, response []byte) error
	RemovePasskey(ctx context.Context, u *iam.User, id string) error
}
