package login

import (
	"context"
	"fmt"
	"slices"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/lockout"
)

// FactorPolicy says when second factors are required.
type FactorPolicy string

// The policies.
const (
	// FactorOff never asks for a second factor, not even users who have one.
	FactorOff FactorPolicy = "off"
	// FactorOptional asks the users who have one.
	FactorOptional FactorPolicy = "optional"
	// FactorRequired asks all users: those without one have to enrol one before the login is complete.
	FactorRequired FactorPolicy = "required"
)

// factorsWait is how long a login waits until the factors of all users are known, and factorsRetry how often it looks.
const factorsWait, factorsRetry = 5 * time.Second, 100 * time.Millisecond

// methodSecondFactor is how a pending login is completed.
const methodSecondFactor = "second-factor"

// second marks a result as pending if it needs a second factor. A User of whom no factor is known does not log in while there may be one.
func (e *Authenticator) second(ctx context.Context, p *iam.AuthnResult) (*iam.AuthnResult, error) {
	switch {
	case e.Factors == nil || e.Policy == FactorOff:
		return p, nil
	case p.User == nil: // a user who registers enrols a factor once the User exists
		p.Pending = e.Policy == FactorRequired
		return p, nil
	}
	has := e.Factors.Of(p.User).Any()
	if !has && e.Factors.Known != nil {
		e.awaitFactors(ctx) // they may have become unknown since the login began
		if err := e.Factors.Known(); err != nil {
			return nil, errUnknownFactors(err)
		}
		has = e.Factors.Of(p.User).Any() // it may have come before the last of them
	}
	p.Pending = e.Policy == FactorRequired || has
	return p, nil
}

func errUnknownFactors(why error) error {
	return fmt.Errorf("%w: not all second factors are known: %w", iam.ErrUnavailable, why)
}

// awaitFactors waits until the factors of all users are known, since a watch is interrupted for a moment whenever the definition of the
// kind is applied again. A login waits before the lockout, which lets the attempts on one user through one after another, and for any name,
// so that nobody is told by it which ones exist; and once more in second.
func (e *Authenticator) awaitFactors(ctx context.Context) {
	if e.Factors == nil || e.Policy == FactorOff || e.Factors.Known == nil || e.Pause == nil {
		return
	}
	for range factorsWait / factorsRetry {
		if ctx.Err() != nil || e.Factors.Known() == nil {
			return
		}
		e.Pause(ctx, factorsRetry)
	}
}

// Register creates the User of a login by an identity that had none, with the errors of account.Linker.Register. Where an administrator has
// linked a User since the login, that one's second factor is needed.
func (e *Authenticator) Register(ctx context.Context, p *iam.AuthnResult, name, email string) error {
	u, err := e.Accounts.Register(ctx, *p.Registration, name, email)
	if err != nil {
		return err
	}
	p.User, p.Registration = u, nil
	if slices.Contains(p.Methods, iam.MethodPassword) {
		_, err = e.second(ctx, p)
	}
	return err
}

// Registered returns the User who is linked to an identity by now, for a session of before; nil for one who has a second
// factor, which that login was not asked for. It fails with ErrUnavailable where a factor may only not be known here.
func (e *Authenticator) Registered(u *iam.User) (*iam.User, error) {
	if u == nil || e.Factors == nil || e.Policy == FactorOff {
		return u, nil
	}
	var unknown error
	if e.Factors.Known != nil {
		unknown = e.Factors.Known() // before the look: what arrives after it may be there already
	}
	switch {
	case e.Factors.Of(u).Any():
		return nil, nil
	case unknown != nil:
		return nil, errUnknownFactors(unknown)
	}
	return u, nil
}

// SecondFactor completes a pending result with a code of an authenticator app, or a recovery code. Its errors are ErrCredentials,
// ErrLimited and ErrUnavailable.
func (e *Authenticator) SecondFactor(ctx context.Context, p *iam.AuthnResult, code string, o iam.Origin) error {
	return e.complete(ctx, p, o, iam.MethodOTP, func(u *iam.User) error { return e.Factors.Verify(ctx, u, code) })
}

// Passkey completes a pending result with the answer of a passkey; see factor.Store.BeginLogin. Its errors are those of SecondFactor.
func (e *Authenticator) Passkey(ctx context.Context, p *iam.AuthnResult, sealed string, response []byte, o iam.Origin) error {
	return e.complete(ctx, p, o, iam.MethodPasskey, func(u *iam.User) error {
		who, err := e.Factors.FinishLogin(ctx, sealed, response)
		if err == nil && who.UID != u.UID {
			err = iam.ErrCredentials
		}
		return err
	})
}

// PasskeyLogin is a login by a passkey alone, which has verified the person and names the user. Its errors are those of Password.
func (e *Authenticator) PasskeyLogin(ctx context.Context, sealed string, response []byte, o iam.Origin) (*iam.AuthnResult, error) {
	u, err := e.Factors.FinishLogin(ctx, sealed, response)
	if err == nil {
		err = e.Passwords.State(u)
	}
	e.record(ctx, u, "passkey", "", o, err)
	if err != nil {
		return nil, err
	}
	return &iam.AuthnResult{User: u, Methods: []string{iam.MethodPasskey, iam.MethodMFA}, At: e.now()}, nil
}

// EnrolTOTP completes a pending result of a user who has to enrol a second factor, as factor.Store.ConfirmFirstTOTP does.
func (e *Authenticator) EnrolTOTP(ctx context.Context, p *iam.AuthnResult, sealed, code string, o iam.Origin) (recovery []string,
	err error) {
	err = e.complete(ctx, p, o, iam.MethodOTP, func(u *iam.User) error {
		recovery, err = e.Factors.ConfirmFirstTOTP(ctx, u, sealed, code)
		return err
	})
	return recovery, err
}

// EnrolOffered enrols the authenticator app of a user who is logged in, as factor.Store.ConfirmOffered does. Wrong codes count as those
// of a login.
func (e *Authenticator) EnrolOffered(ctx context.Context, u *iam.User, secret, code string, o iam.Origin) (recovery []string, err error) {
	p := &iam.AuthnResult{User: u, Pending: true}
	err = e.complete(ctx, p, o, iam.MethodOTP, func(u *iam.User) error {
		recovery, err = e.Factors.ConfirmOffered(ctx, u, secret, code)
		return err
	})
	return recovery, err
}

// complete completes a pending result if verify succeeds.
func (e *Authenticator) complete(ctx context.Context, p *iam.AuthnResult, o iam.Origin, method string, verify func(*iam.User) error) error {
	if p == nil || !p.Pending || p.User == nil || e.Factors == nil {
		return iam.ErrCredentials
	}
	note(ctx, p.User, methodSecondFactor, p.Provider)
	u, err := e.Passwords.Users.Lookup(p.User.Name, p.User.UID)
	if err != nil {
		return err
	}
	if u == nil || u.Credential() != p.User.Credential() || u.Deleting {
		return iam.ErrCredentials
	}
	if err := e.Passwords.State(u); err != nil {
		return err
	}
	try, err := e.begin(ctx, lockout.Code, u, u.Name, o)
	if err == nil {
		done := *p
		done.User, done.Pending, done.Methods = u, false, append(slices.Clone(p.Methods), method, iam.MethodMFA)
		if err = e.settle(ctx, try, &done, verify(u)); err == nil {
			*p = done
		}
	}
	e.record(ctx, u, methodSecondFactor, p.Provider, o, err)
	return err
}
