// Package session takes this server's own access tokens for the users whose sessions they belong to.
package session

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/token"
)

// Sessions say whose a verified token is at this moment, and refuse the token of a session that is over.
type Sessions interface {
	Authenticate(ctx context.Context, a *token.Access) (user.Info, error)
}

// Authenticator verifies access tokens, and asks at each request whether their session still lives:
// no token is beyond revocation.
type Authenticator struct {
	Tokens   *token.Verifier
	Sessions Sessions
}

var _ authenticator.Token = (*Authenticator)(nil)

// AuthenticateToken returns the user of an access token.
func (a *Authenticator) AuthenticateToken(ctx context.Context, s string) (*authenticator.Response, bool, error) {
	access, err := a.Tokens.Access(s)
	if err != nil {
		return nil, false, err
	}
	u, err := a.Sessions.Authenticate(ctx, access)
	if err != nil {
		return nil, false, fmt.Errorf("session of the token: %w", err)
	}
	return &authenticator.Response{User: u}, true, nil
}
