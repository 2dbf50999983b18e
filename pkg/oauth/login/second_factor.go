package login

import (
	"errors"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// askFactor asks for the second factor.
func (s *Steps) askFactor(r *http.Request, state *formstate.State, result *iam.AuthnResult, code int, say page.Message) (any, error) {
	has := s.Enrolled(result.User)
	if !has.Any() {
		return s.askEnrolment(r, state, result, code, say)
	}
	d := page.Factor{User: result.User.Name, TOTP: has.TOTP}
	d.Error = say
	sealed, set, err := s.Forms.Seal(r, formstate.Factor, *state)
	if err != nil {
		return nil, err
	}
	d.Form = sealed
	if len(has.Passkeys) > 0 {
		if d.Passkey, err = s.Page.passkeyButton(r, *state, set, result.User); err != nil {
			return nil, err
		}
		if d.Passkey != nil {
			d.Passkey.Or = d.TOTP
		}
	}
	return s.Book.Show(code, d, state.Targets(), set), nil
}

// factor takes a code of an authenticator app, or a recovery code.
func (s *Steps) factor(r *http.Request, f protocol.Form) (any, error) {
	state, result, err := s.Forms.OpenResult(r, formstate.Factor, f["form"])
	if err != nil {
		return nil, err
	}
	if !result.Pending || result.User == nil {
		return nil, formstate.Stale(errors.New("no second factor is asked for"))
	}
	err = s.Authenticator.SecondFactor(r.Context(), result, f["code"], s.OriginOf(r))
	if err == nil {
		return s.Advance(r, state, result)
	}
	code, say, ok := Fault(err, "")
	if !ok {
		return nil, err
	}
	if errors.Is(err, iam.ErrCredentials) {
		say = page.Say("error.code")
	}
	return s.askFactor(r, state, result, code, say)
}
