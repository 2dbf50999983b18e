// Package legacy accepts the access tokens of an older installation during a migration.
package legacy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

const (
	// algorithm is the only one of those tokens. No other verifier of this server knows it.
	algorithm = "HS256"
	// maxToken is the longest token, in bytes, that is parsed.
	maxToken = 8 << 10
	// minSecret is the shortest secret, in bytes (RFC 7518, 3.2).
	minSecret = 32
)

// The accepted values of the claim token_type. Refresh tokens and codes have others.
const (
	typeAccess = "access_token"
	typeStatic = "static_token"
)

var errRefused = errors.New("the token of the older installation is not accepted")

// Users returns the user who may log in with such a token: an active user, and since when the name and the password are theirs (zero if not
// known). Its error says why no user of that name may; it is a Status of 503 where that can't be told now.
type Users func(name string) (u user.Info, since time.Time, err error)

// Options configure an Authenticator.
type Options struct {
	// Secret is the older installation's signing secret.
	Secret []byte
	// Until ends the migration: from then on every such token is refused, whatever its claims.
	Until time.Time
	Users Users
	// Leeway is how far clocks may differ.
	Leeway time.Duration
	// Now returns the time.
	Now func() time.Time
}

// Authenticator verifies tokens that an older installation signed with a shared secret. They have no session: they end with their user,
// also if there is one of the name again, with a change of the user's password, at their own expiry, and with the migration.
type Authenticator struct {
	Options
	parser *jwt.Parser
}

var _ authenticator.Token = (*Authenticator)(nil)

// New returns an Authenticator. It fails if the secret could be guessed.
func New(o Options) (*Authenticator, error) {
	if len(o.Secret) < minSecret {
		return nil, fmt.Errorf("tokens of an older installation: the secret has %d bytes; %d are the least", len(o.Secret), minSecret)
	}
	return &Authenticator{Options: o, parser: jwt.NewParser(jwt.WithValidMethods([]string{algorithm}), jwt.WithStrictDecoding(),
		jwt.WithTimeFunc(o.Now), jwt.WithLeeway(o.Leeway), jwt.WithIssuedAt())}, nil
}

type claims struct {
	jwt.RegisteredClaims
	Type     string `json:"token_type"`
	Username string `json:"username"`
}

// AuthenticateToken returns the user of a token of the older installation. A token with another signature algorithm is left to other
// authenticators.
func (a *Authenticator) AuthenticateToken(_ context.Context, s string) (*authenticator.Response, bool, error) {
	now := a.Now()
	if !now.Before(a.Until) || len(s) > maxToken || !ours(s) {
		return nil, false, nil
	}
	var c claims
	if _, err := a.parser.ParseWithClaims(s, &c, func(t *jwt.Token) (any, error) {
		if _, ok := t.Header["crit"]; ok { // RFC 7515, 4.1.11: no extension is understood here
			return nil, errors.New("it has critical extensions")
		}
		return a.Secret, nil
	}); err != nil {
		return nil, false, fmt.Errorf("%w: %w", errRefused, err)
	}
	switch {
	case c.Type != typeAccess && c.Type != typeStatic:
		return nil, false, fmt.Errorf("%w: it is a token of another kind", errRefused)
	case len(c.Audience) > 0: // those of such an installation are for nobody in particular; a hub makes some for its members
		return nil, false, fmt.Errorf("%w: it is for somebody else", errRefused)
	case c.Type == typeAccess && c.ExpiresAt == nil:
		return nil, false, fmt.Errorf("%w: it has no end", errRefused)
	}
	u, since, err := a.Users(c.Username)
	if err != nil {
		return nil, false, fmt.Errorf("%w: its user: %w", errRefused, err)
	}
	if !since.IsZero() && (c.IssuedAt == nil || c.IssuedAt.Before(since)) { // it names the user, and no UID
		return nil, false, fmt.Errorf("%w: it does not say that it is newer than its user, and than the password", errRefused)
	}
	return &authenticator.Response{User: u}, true, nil
}

// ours reports whether a token could be of the older installation, by its header.
func ours(s string) bool {
	head, _, ok := strings.Cut(s, ".")
	if !ok || len(head) > 512 || strings.ContainsAny(s, "\r\n") { // base64 skips line ends
		return false
	}
	b, err := base64.RawURLEncoding.DecodeString(head)
	var h struct {
		Algorithm string `json:"alg"`
	}
	return err == nil && json.Unmarshal(b, &h) == nil && h.Algorithm == algorithm
}
