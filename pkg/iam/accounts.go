package iam

import (
	"context"
	"errors"

	"kapis.dev/ks-apiserver/pkg/idp"
)

var (
	// ErrUnknownProvider says that no provider has the name that a login gives, or that it is disabled.
	ErrUnknownProvider = errors.New("there is no such identity provider")
	// ErrNotLinked says that the identity is good, and that no User is linked to it, nor may be made.
	ErrNotLinked = errors.New("no user is linked to the identity")
)

// Accounts link identities to Users. It is told of each User, and never goes by a name.
type Accounts struct{}

// Resolve returns the User that an identity is linked to, one that was made for it, or how to register one: by the provider's mapping.
func (a *Accounts) Resolve(context.Context, *idp.Entry, *idp.Identity) (*User, *Registration, error) {
	return nil, nil, ErrNotLinked
}

// Register makes the User of a registration, with a name and an e-mail that the person chose.
func (a *Accounts) Register(context.Context, Registration, string, string) (*User, error) {
	return nil, ErrNotLinked
}
