// Package apikey authenticates users by their API keys.
package apikey

import (
	"context"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/token"
)

// Keys finds the current owner of an API key, and refuses a key that is not valid.
type Keys interface {
	Authenticate(k token.APIKey) (user.Info, error)
}

// Authenticator verifies bearer tokens that have the form of an API key, and leaves all others to other authenticators.
type Authenticator struct {
	Keys Keys
}

var _ authenticator.Token = (*Authenticator)(nil)

// AuthenticateToken returns the user of an API key.
func (a *Authenticator) AuthenticateToken(_ context.Context, s string) (*authenticator.Response, bool, error) {
	if !strings.HasPrefix(s, token.APIKeyPrefix) {
		return nil, false, nil
	}
	k, err := token.ParseAPIKey(s)
	if err != nil {
		return nil, false, err
	}
	u, err := a.Keys.Authenticate(k)
	if err != nil {
		return nil, false, err
	}
	return &authenticator.Response{User: u}, true, nil
}
