package login

import (
	"errors"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// passkey takes the response of a passkey: a login of its own, or the second factor of one.
func (s *Steps) passkey(r *http.Request, f protocol.Form) (any, error) {
	state, err := s.Forms.Open(r, formstate.Passkey, f["form"])
	if err != nil {
		return nil, err
	}
	if s.Authenticator == nil || s.Page.Passkeys == nil {
		return nil, protocol.Problem(http.StatusBadRequest, page.Say("error.passkey"), nil)
	}
	challenge, response := state.Challenge, []byte(f["response"])
	if state.Result == nil {
		result, err := s.Authenticator.PasskeyLogin(r.Context(), challenge, response, s.OriginOf(r))
		if err != nil {
			return s.failedPasskey(r, state, err)
		}
		return s.Advance(r, state, result)
	}
	result, err := s.Forms.UnpackResult(state.Result)
	if err != nil {
		return nil, err
	}
	if err := s.Authenticator.Passkey(r.Context(), result, challenge, response, s.OriginOf(r)); err != nil {
		return s.failedPasskey(r, state, err)
	}
	return s.Advance(r, state, result)
}

// failedPasskey answers with the login page again.
func (s *Steps) failedPasskey(r *http.Request, state *formstate.State, err error) (any, error) {
	if errors.Is(err, iam.ErrCredentials) {
		return s.Page.Show(r, *state, PageState{Code: http.StatusBadRequest, Error: page.Say("error.passkey")})
	}
	return s.Page.Failed(r, state, err, PageState{})
}
