package iam

import (
	"context"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// Attempt is somebody's attempt to log in with a password.
type Attempt struct {
	Origin
	// Login is what was typed as the name: a name or an e-mail. Password is what he proves it with.
	Login, Password string
	// Provider is the identity provider to ask; "" for a local password.
	Provider string
	// Client is the OAuth client that he logs in to.
	Client string
}

// Entrance is where people come in: it counts failures, asks for the proof, links identities to Users, and has each
// attempt recorded.
type Entrance struct {
	Passwords *Passwords
	Directory *idp.Directory
	Accounts  *Accounts
	Factors   *Factors
}

// Password checks a password. Its errors are ErrCredentials, ErrSuspended, ErrLimited, ErrBusy, ErrUnavailable, ErrUnknownProvider,
// ErrNotLinked, and idp.ErrUnavailable. A proof that is Pending needs SecondFactor.
func (e *Entrance) Password(ctx context.Context, a Attempt) (*Proof, error) {
	u, err := e.Passwords.Authenticate(ctx, a.Login, a.Password)
	if err != nil {
		return nil, err
	}
	return &Proof{User: u, Methods: []string{MethodPassword}}, nil
}

// Identity takes whom a Redirect provider, or an authenticating proxy, vouches for. Its errors are as those of Password.
func (e *Entrance) Identity(context.Context, string, *idp.Identity, Origin) (*Proof, error) {
	return nil, ErrUnknownProvider
}

// SecondFactor completes a pending proof with a code of an authenticator app, or a recovery code. Its errors are ErrCredentials, ErrLimited and
// ErrUnavailable.
func (e *Entrance) SecondFactor(context.Context, *Proof, string, Origin) error { return ErrCredentials }
