package login

import (
	"context"
	"errors"
	"net/http"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	iamlogin "kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// askNewPassword asks for a new password in place of one that an administrator set.
func (s *Steps) askNewPassword(r *http.Request, state *formstate.State, code int, say page.Message) (any, error) {
	if s.Passwords == nil {
		return nil, protocol.Problem(http.StatusServiceUnavailable, page.Say("error.later"), nil)
	}
	d := page.Password{User: state.Result.User, Forced: true, Action: "login", Step: "password-new"}
	d.Error = say
	sealed, set, err := s.Forms.Seal(r, formstate.Password, *state)
	if err != nil {
		return nil, err
	}
	d.Form = sealed
	return s.Book.Show(code, d, state.Targets(), set), nil
}

// newPassword takes the new password.
func (s *Steps) newPassword(r *http.Request, f protocol.Form) (any, error) {
	state, result, err := s.Forms.OpenResult(r, formstate.Password, f["form"])
	if err != nil {
		return nil, err
	}
	if result.Pending || result.User == nil || s.Passwords == nil {
		return nil, formstate.Stale(errors.New("no new password is asked for"))
	}
	u, code, say, err := s.Passwords.Set(r, result.User, "", f)
	if err != nil || say != nil {
		if err == nil {
			return s.askNewPassword(r, state, code, say)
		}
		return nil, err
	}
	result.User = u
	return s.Advance(r, state, result)
}

// PasswordSetter sets users' passwords from forms.
type PasswordSetter struct {
	Change ChangePassword
	// Users returns the user with a name; nil if there is none.
	Users    func(name string) *iam.User
	OriginOf func(*http.Request) iam.Origin
}

// Set changes a password as a form says, and returns the changed user, or a status code and a message for what the user can correct.
func (s *PasswordSetter) Set(
	r *http.Request, u *iam.User, current string, f protocol.Form,
) (now *iam.User, code int, say page.Message, err error) {
	if f["new"] != f["repeat"] {
		return nil, http.StatusBadRequest, page.Say("error.repeat"), nil
	}
	err = s.Change(r.Context(), iamlogin.PasswordChange{Origin: s.OriginOf(r), User: u, Current: current, Proven: current == "",
		New: f["new"]})
	switch {
	case errors.Is(err, iam.ErrPolicy):
		return nil, http.StatusBadRequest, page.Say("error.policy"), nil
	case err != nil:
		code, say, ok := Fault(err, "")
		if ok {
			return nil, code, say, nil
		}
		return nil, 0, nil, err
	}
	now, err = s.wait(r.Context(), u)
	return now, 0, nil, err
}

// settle is how long this replica may take to see a changed user, and lookEvery the pause between two checks.
const (
	settle    = 5 * time.Second
	lookEvery = 10 * time.Millisecond
)

// wait waits until this replica has a user's new password: a session opened before would end at once.
func (s *PasswordSetter) wait(ctx context.Context, old *iam.User) (*iam.User, error) {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		u := s.Users(old.Name)
		if u != nil && u.UID == old.UID && u.Credential() != old.Credential() && !u.Uninitialized {
			return u, nil
		}
		select {
		case <-ctx.Done():
			return nil, protocol.Problem(http.StatusServiceUnavailable, page.Say("error.later"),
				errors.New("the new password is set, and not known here yet"))
		case <-tick.C:
		}
	}
}

// ChangePassword sets a user's password, as iamlogin.Authenticator does.
type ChangePassword func(ctx context.Context, c iamlogin.PasswordChange) error
