// Package legacy takes the access tokens of an older installation, for the time of a migration.
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
	// maxToken is the longest token, in bytes, that is looked at.
	maxToken = 8 << 10
	// minSecret is the shortest secret, in bytes (RFC 7518, 3.2).
	minSecret = 32
)

// The values of the claim token_type that are taken. A refresh token or a code is none of them.
const (
	typeAccess = "access_token"
	typeStatic = "static_token"
)

var errRefused = errors.New("the token of the older installation is not accepted")

// Users say who may come in with such a token: an active user, and when he last changed his password (zero for
// not known). ok is false where nobody of that name may.
type Users func(name string) (u user.Info, passwordChanged time.Time, ok bool)

// Options are what an Authenticator works with.
type Options struct {
	// Secret is what the older installation signed with.
	Secret []byte
	// Until ends the migration: from then on no such token is taken, whatever stands in it.
	Until time.Time
	Users Users
	// Leeway is how far clocks may differ.
	Leeway time.Duration
	// Now is the clock.
	Now func() time.Time
}

// Authenticator takes tokens that an older installation signed with a shared secret. They have no session: what ends one is
// the end of its user, a change of his password, its own end, and the end of the migration.
type Authenticator struct {
	Options
	parser *jwt.Parser
}

var _ authenticator.Token = (*Authenticator)(nil)

// New makes an Authenticator. It fails where the secret could be guessed.
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

// AuthenticateToken returns the user of a token of the older installation. What is signed otherwise is none of its kind.
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
	case c.Type == typeAccess && c.ExpiresAt == nil:
		return nil, false, fmt.Errorf("%w: it has no end", errRefused)
	}
	u, changed, ok := a.Users(c.Username)
	if !ok {
		return nil, false, fmt.Errorf("%w: its user is gone, or not active", errRefused)
	}
	if !changed.IsZero() && (c.IssuedAt == nil || c.IssuedAt.Before(changed)) {
		return nil, false, fmt.Errorf("%w: the password was changed since", errRefused)
	}
	return &authenticator.Response{User: u}, true, nil
}

// ours tells by its header whether a token could be of the older installation.
func ours(s string) bool {
	head, _, ok := strings.Cut(s, ".")
	if !ok || len(head) > 512 || strings.ContainsAny(s, "\r\n") { // base64 passes over line ends
		return false
	}
	b, err := base64.RawURLEncoding.DecodeString(head)
	var h struct {
		Algorithm string `json:"alg"`
	}
	return err == nil && json.Unmarshal(b, &h) == nil && h.Algorithm == algorithm
}
