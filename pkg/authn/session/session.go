// Package session authenticates users by this server's own access tokens.
package session

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/token"
)

// Sessions finds the current user of a verified token, and refuses the token of a session that has ended.
type Sessions interface {
	Authenticate(ctx context.Context, a *token.Access) (user.Info, error)
}

// Authenticator verifies access tokens, and checks at each request that their session still lives: every token can be revoked.
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
