package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/mail"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
)

// advance goes on with what a person has shown: it asks for what is missing, one thing at a time, and logs him in when
// nothing is. Before that nothing is stored, and nothing is issued.
func (s *Server) advance(r *http.Request, p *formState, proof *iam.AuthnResult) (any, error) {
	if proof.At.IsZero() {
		proof.At = s.Now()
	}
	p.Challenge, p.Result = "", sealResult(proof)
	switch {
	case proof.Pending && proof.User != nil:
		return s.askSecondFactorPage(r, p, proof, 0, nil)
	case proof.User == nil && proof.Registration != nil:
		return s.askRegistration(r, p, proof.Registration.Username, proof.Registration.Email, 0, nil)
	case proof.User == nil || proof.Pending:
		return nil, iam.ErrNotLinked
	case proof.User.Uninitialized && proof.Provider == "":
		return s.askNewPassword(r, p, 0, nil)
	case p.Console != nil:
		return s.sendConsoleCode(r, p.Console, proof)
	}
	b, set, err := s.openBrowserSession(r, proof)
	if err != nil {
		return nil, err
	}
	if p.Request == nil {
		to := root(r) + "account"
		if p.Again {
			to += "?done=fresh"
		}
		return withCookies{[]*http.Cookie{set}, redirect(to)}, nil
	}
	return s.withSession(set)(s.resumeAuthorization(r, b, p.Request))
}

// withSession sets a cookie with an answer, whatever it is.
func (s *Server) withSession(set *http.Cookie) func(any, error) (any, error) {
	return func(v any, err error) (any, error) {
		if err != nil {
			v = errorResponse{s.asPage(err)}
		}
		return withCookies{[]*http.Cookie{set}, v}, nil
	}
}

// errorResponse is an error that is written like a value.
type errorResponse struct{ e *Error }

// Respond writes the error.
func (a errorResponse) Respond(w http.ResponseWriter, r *http.Request) { a.e.write(w, r) }

// askSecondFactorPage asks for the second factor.
func (s *Server) askSecondFactorPage(r *http.Request, p *formState, proof *iam.AuthnResult, code int, say page.Message) (any, error) {
	has := s.deps.enrolled(proof.User)
	if !has.Any() {
		return s.askEnrolment(r, p, proof, code, say)
	}
	d := page.Factor{User: proof.User.Name, TOTP: has.TOTP}
	d.Error = say
	sealed, set, err := s.sealForm(r, formFactor, *p)
	if err != nil {
		return nil, err
	}
	d.Form = sealed
	if len(has.Passkeys) > 0 {
		if d.Passkey, err = s.passkeyLogin(r, *p, set, proof.User); err != nil {
			return nil, err
		}
		if d.Passkey != nil {
			d.Passkey.Or = d.TOTP
		}
	}
	return s.show(code, d, p.targets(), set), nil
}

// factorStep takes the code of an authenticator app, or a recovery code.
func (s *Server) factorStep(r *http.Request, f form) (any, error) {
	p, proof, err := s.openResult(r, formFactor, f["form"])
	if err != nil {
		return nil, err
	}
	if !proof.Pending || proof.User == nil {
		return nil, stale(errors.New("no second factor is asked for"))
	}
	err = s.deps.authenticator.SecondFactor(r.Context(), proof, f["code"], s.originOf(r))
	if err == nil {
		return s.advance(r, p, proof)
	}
	code, say, ok := loginFault(err, "")
	if !ok {
		return nil, err
	}
	if errors.Is(err, iam.ErrCredentials) {
		say = page.Say("error.code")
	}
	return s.askSecondFactorPage(r, p, proof, code, say)
}

// openResult opens a form state that has what the person has shown so far.
func (s *Server) openResult(r *http.Request, name formName, sealed string) (*formState, *iam.AuthnResult, error) {
	p, err := s.openForm(r, name, sealed)
	if err != nil {
		return nil, nil, err
	}
	proof, err := s.unpack(p.Result)
	return p, proof, err
}

// askNewPassword asks for a password that nobody else knows.
func (s *Server) askNewPassword(r *http.Request, p *formState, code int, say page.Message) (any, error) {
	if s.deps.password == nil {
		return nil, problem(http.StatusServiceUnavailable, page.Say("error.later"), nil)
	}
	d := page.Password{User: p.Result.User, Forced: true, Action: "login", Step: "password-new"}
	d.Error = say
	sealed, set, err := s.sealForm(r, formPassword, *p)
	if err != nil {
		return nil, err
	}
	d.Form = sealed
	return s.show(code, d, p.targets(), set), nil
}

func (s *Server) newPasswordStep(r *http.Request, f form) (any, error) {
	p, proof, err := s.openResult(r, formPassword, f["form"])
	if err != nil {
		return nil, err
	}
	if proof.Pending || proof.User == nil || s.deps.password == nil {
		return nil, stale(errors.New("no new password is asked for"))
	}
	u, code, say, err := s.setPassword(r, proof.User, "", f)
	if err != nil || say != nil {
		if err == nil {
			return s.askNewPassword(r, p, code, say)
		}
		return nil, err
	}
	proof.User = u
	return s.advance(r, p, proof)
}

// setPassword changes a password as a form says, and returns the User as he is then. What the person can mend is said.
func (s *Server) setPassword(r *http.Request, u *iam.User, current string, f form) (now *iam.User, code int, say page.Message, err error) {
	if f["new"] != f["repeat"] {
		return nil, http.StatusBadRequest, page.Say("error.repeat"), nil
	}
	err = s.deps.password(r.Context(), login.PasswordChange{Origin: s.originOf(r), User: u, Current: current, Proven: current == "", New: f["new"]})
	switch {
	case errors.Is(err, iam.ErrPolicy):
		return nil, http.StatusBadRequest, page.Say("error.policy"), nil
	case err != nil:
		code, say, ok := loginFault(err, "")
		if ok {
			return nil, code, say, nil
		}
		return nil, 0, nil, err
	}
	now, err = s.waitForPassword(r.Context(), u)
	return now, 0, nil, err
}

// settle is how long a change of a User may take to come back, and lookEvery the pause between two looks.
const (
	settle    = 5 * time.Second
	lookEvery = 10 * time.Millisecond
)

// waitForPassword waits until this replica knows a User's new password: a session of the old one would be over at once.
func (s *Server) waitForPassword(ctx context.Context, old *iam.User) (*iam.User, error) {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		u := s.deps.users(old.Name)
		if u != nil && u.UID == old.UID && u.Credential() != old.Credential() && !u.Uninitialized {
			return u, nil
		}
		select {
		case <-ctx.Done():
			return nil, problem(http.StatusServiceUnavailable, page.Say("error.later"), errors.New("the new password is set, and not known here yet"))
		case <-tick.C:
		}
	}
}

// askRegistration asks somebody whom a provider knows what he wants to be called here.
func (s *Server) askRegistration(r *http.Request, p *formState, name, email string, code int, say page.Message) (any, error) {
	d := page.Register{Provider: s.labelOf(p.Result.Provider), Username: name, Email: email}
	d.Error = say
	sealed, set, err := s.sealForm(r, formRegister, *p)
	if err != nil {
		return nil, err
	}
	d.Form = sealed
	return s.show(code, d, p.targets(), set), nil
}

func (s *Server) registerStep(r *http.Request, f form) (any, error) {
	p, proof, err := s.openResult(r, formRegister, f["form"])
	if err != nil {
		return nil, err
	}
	if proof.User != nil || proof.Registration == nil || s.deps.accounts == nil {
		return nil, stale(errors.New("no registration is asked for"))
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
		return s.askRegistration(r, p, name, email, http.StatusBadRequest, say)
	}
	u, err := s.deps.accounts.Register(r.Context(), *proof.Registration, name, email)
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsInvalid(err), apierrors.IsConflict(err), errors.Is(err, iam.ErrNotLinked):
		return s.askRegistration(r, p, name, email, http.StatusConflict, page.Say("error.taken"))
	case err != nil:
		return nil, err
	}
	proof.User, proof.Registration = u, nil
	return s.advance(r, p, proof)
}
