package iam

import (
	"context"
	"time"
)

// APIKey is a long-lived credential for automation, of one user. What it opens is kept as a hash.
type APIKey struct {
	Name, User, UserUID, Description string
	Created, Expires                 time.Time
	// Used is about when it was last used; zero for never.
	Used time.Time
}

// APIKeys are the API keys of all users.
type APIKeys struct{}

// Create makes a key, and returns it with its token, which is shown once.
func (k *APIKeys) Create(context.Context, *User, string, time.Time) (*APIKey, string, error) {
	return nil, "", ErrUnavailable
}

// List returns the keys of a user, the newest first.
func (k *APIKeys) List(*User) []APIKey { return nil }

// Revoke ends a key of a user; ErrOver where he has none of that name.
func (k *APIKeys) Revoke(context.Context, *User, string) error { return ErrOver }
