package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// TOTPSetup is the page with the secret of a new authenticator app, which asks for its first code.
type TOTPSetup struct {
	Book  *page.Book
	Forms *formstate.Forms
}

// TOTP makes secrets for authenticator apps.
type TOTP interface {
	BeginTOTP(*iam.User) (uri, sealed string, err error)
}

// Show answers with the page. The state says how to continue.
func (t *TOTPSetup) Show(r *http.Request, state formstate.State, e formstate.Enrolment, code int, say page.Message) (any, error) {
	u, err := url.Parse(e.URI)
	if err != nil {
		return nil, fmt.Errorf("show the secret of an authenticator app: %w", err)
	}
	qr, err := page.QR(e.URI)
	if err != nil {
		return nil, err
	}
	state.Enrolment = &e
	form, set, err := t.Forms.Seal(r, formstate.TOTP, state)
	if err != nil {
		return nil, err
	}
	d := page.TOTP{QR: qr, Account: e.User, Action: e.Action, Secret: inFours(u.Query().Get("secret"))}
	d.Form, d.Error = form, say
	return t.Book.Show(code, d, state.Targets(), set), nil
}

// inFours groups a secret in fours, which are easier to type.
func inFours(s string) string {
	var b strings.Builder
	for i, r := range s {
		if i > 0 && i%4 == 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Failed answers with the page again and says what is wrong with the code.
func (t *TOTPSetup) Failed(r *http.Request, state *formstate.State, err error) (any, error) {
	code, say, ok := Fault(err, "")
	if !ok {
		return nil, err
	}
	if errors.Is(err, iam.ErrCredentials) {
		say = page.Say("error.code")
	}
	return t.Show(r, *state, *state.Enrolment, code, say)
}

// Digits returns a code without the blanks that apps show.
func Digits(code string) string { return strings.ReplaceAll(code, " ", "") }

// askEnrolment asks a user without a second factor, who needs one, to set it up before the login.
func (s *Steps) askEnrolment(r *http.Request, state *formstate.State, result *iam.AuthnResult, code int, say page.Message) (any, error) {
	if err := Offered(s.TOTP != nil); err != nil {
		return nil, err
	}
	uri, sealed, err := s.TOTP.BeginTOTP(result.User)
	if err != nil {
		return nil, err
	}
	return s.Setup.Show(r, *state, formstate.Enrolment{User: result.User.Name, URI: uri, Sealed: sealed, Action: "login"}, code, say)
}

// enrol takes the first code of the app, and shows the recovery codes, once, before the login continues.
func (s *Steps) enrol(r *http.Request, f protocol.Form) (any, error) {
	state, result, err := s.Forms.OpenResult(r, formstate.TOTP, f["form"])
	if err != nil {
		return nil, err
	}
	if state.Enrolment == nil || s.Enroller == nil {
		return nil, formstate.Stale(errors.New("no second factor is to be set up"))
	}
	recovery, err := s.Enroller.EnrolTOTP(r.Context(), result, state.Enrolment.Sealed, Digits(f["code"]), s.OriginOf(r))
	if err != nil {
		return s.Setup.Failed(r, state, err)
	}
	state.Enrolment, state.Result = nil, formstate.PackResult(result)
	sealed, set, err := s.Forms.Seal(r, formstate.Enrolled, *state)
	if err != nil {
		return nil, err
	}
	d := page.Secret{Title: page.Say("secret.recovery"), Text: page.Say("secret.text"), Values: recovery,
		Action: "login", Step: "enrolled", Form: sealed}
	return s.Book.Show(0, d, state.Targets(), set), nil
}

// enrolled continues the login after the recovery codes.
func (s *Steps) enrolled(r *http.Request, f protocol.Form) (any, error) {
	state, result, err := s.Forms.OpenResult(r, formstate.Enrolled, f["form"])
	if err != nil {
		return nil, err
	}
	return s.Advance(r, state, result)
}

// Enroller enables a second factor during a login.
type Enroller interface {
	EnrolTOTP(ctx context.Context, result *iam.AuthnResult, sealed, code string, o iam.Origin) (recovery []string, err error)
}
