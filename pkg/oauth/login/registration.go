package login

import (
	"context"
	"errors"
	"net/http"
	"net/mail"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// askRegistration asks a user whom a provider has authenticated for a user name and e-mail.
func (s *Steps) askRegistration(r *http.Request, state *formstate.State, name, email string, code int, say page.Message) (any, error) {
	d := page.Register{Provider: s.Page.label(state.Result.Provider), Username: name, Email: email}
	d.Error = say
	sealed, set, err := s.Forms.Seal(r, formstate.Register, *state)
	if err != nil {
		return nil, err
	}
	d.Form = sealed
	return s.Book.Show(code, d, state.Targets(), set), nil
}

// register takes the user name and e-mail, and creates the user.
func (s *Steps) register(r *http.Request, f protocol.Form) (any, error) {
	state, result, err := s.Forms.OpenResult(r, formstate.Register, f["form"])
	if err != nil {
		return nil, err
	}
	if result.User != nil || result.Registration == nil || s.Accounts == nil {
		return nil, formstate.Stale(errors.New("no registration is asked for"))
	}
	name, email := f["username"], f["email"]
	var say page.Message
	if address, bad := mail.ParseAddress(email); bad != nil || address.Address != email || len(email) > 254 {
		say = page.Say("error.email")
	}
	if len(validation.IsDNS1123Label(name)) > 0 {
		say = page.Say("error.name")
	}
	if say != nil {
		return s.askRegistration(r, state, name, email, http.StatusBadRequest, say)
	}
	switch err := s.Accounts.Register(r.Context(), result, name, email); {
	case apierrors.IsAlreadyExists(err), apierrors.IsInvalid(err), apierrors.IsConflict(err), errors.Is(err, iam.ErrNotLinked):
		return s.askRegistration(r, state, name, email, http.StatusConflict, page.Say("error.taken"))
	case err != nil:
		return nil, err
	}
	return s.Advance(r, state, result)
}

// Accounts creates users at their first login through a provider. The result is then that of the User, who may need a second factor.
type Accounts interface {
	Register(ctx context.Context, result *iam.AuthnResult, name, email string) error
}
