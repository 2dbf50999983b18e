// Package apikey takes API keys for the users whose keys they are.
package apikey

import (
	"context"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/token"
)

// Keys say whose an API key is at this moment, and refuse one that is not good.
type Keys interface {
	Authenticate(k token.APIKey) (user.Info, error)
}

// Authenticator judges bearer tokens that have the form of an API key, and passes over all others.
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
