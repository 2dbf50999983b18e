package login

import (
	"context"
	"fmt"
	"slices"

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

// methodSecondFactor is how a pending login is completed.
const methodSecondFactor = "second-factor"

// second marks a result as pending if it needs a second factor. Until factors are loaded, no login of a User succeeds.
func (e *Authenticator) second(p *iam.AuthnResult) (*iam.AuthnResult, error) {
	switch {
	case e.Factors == nil || e.Policy == FactorOff:
		return p, nil
	case p.User == nil: // a user who registers enrols a factor once the User exists
		p.Pending = e.Policy == FactorRequired
		return p, nil
	case e.Factors.Known != nil && e.Factors.Known() != nil:
		return nil, fmt.Errorf("%w: second factors are not loaded yet: %w", iam.ErrUnavailable, e.Factors.Known())
	}
	p.Pending = e.Policy == FactorRequired || e.Factors.Of(p.User).Any()
	return p, nil
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

// EnrolTOTP completes a pending result of a user who has to enrol a second factor, as factor.Store.ConfirmTOTP does.
func (e *Authenticator) EnrolTOTP(ctx context.Context, p *iam.AuthnResult, sealed, code string, o iam.Origin) (recovery []string,
	err error) {
	err = e.complete(ctx, p, o, iam.MethodOTP, func(u *iam.User) error {
		if e.Factors.Of(u).Any() {
			return iam.ErrCredentials
		}
		recovery, err = e.Factors.ConfirmTOTP(ctx, u, sealed, code)
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
