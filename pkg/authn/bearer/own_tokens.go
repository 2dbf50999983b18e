package bearer

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/token"
)

// AccessTokens verifies this server's own access tokens, and checks at each request that their session still lives: every token can be
// revoked.
type AccessTokens struct {
	Verifier *token.Verifier
	Sessions Sessions
}

// Sessions finds the current user of a verified token, and refuses the token of a session that has ended.
type Sessions interface {
	Authenticate(ctx context.Context, a *token.Access) (user.Info, error)
}

// AuthenticateToken returns the user of an access token.
func (a *AccessTokens) AuthenticateToken(ctx context.Context, s string) (*authenticator.Response, bool, error) {
	access, err := a.Verifier.Access(s)
	if err != nil {
		return nil, false, err
	}
	u, err := a.Sessions.Authenticate(ctx, access)
	if err != nil {
		return nil, false, fmt.Errorf("session of the token: %w", err)
	}
	return &authenticator.Response{User: u}, true, nil
}

// APIKeys verifies bearer tokens that have the form of an API key, and leaves all others to other authenticators.
type APIKeys struct {
	Keys Keys
}

// Keys finds the current owner of an API key, and refuses a key that is not valid.
type Keys interface {
	Authenticate(k token.APIKey) (user.Info, error)
}

// AuthenticateToken returns the user of an API key.
func (a *APIKeys) AuthenticateToken(_ context.Context, s string) (*authenticator.Response, bool, error) {
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
