package token

import (
	"crypto/rand"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// typeBackend is the typ of tokens for backends of extensions. No verifier of this server accepts it.
const typeBackend = "kapis-backend+jwt"

// Backend has the claims of a token that names the caller to the backend of an extension. This server accepts no such token.
type Backend struct {
	// Subject is the UID of the user, Username the name.
	Subject, Username string
	Groups            []string
	// Session is the name of the session of the login; "" without one.
	Session string
	// Audience names the backend, which has to verify it.
	Audience string
	// Issued and Expires are iat and exp, in whole seconds.
	Issued, Expires time.Time
}

type backendClaims struct {
	jwt.RegisteredClaims

	Username string   `json:"username,omitempty"`
	Groups   []string `json:"groups,omitempty"`
	Session  string   `json:"sid,omitempty"`
}

// Backend signs a token for a backend. It is verified by the keys at /oauth/keys.
func (i *Issuer) Backend(b *Backend) (string, error) {
	return i.sign(typeBackend, backendClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: i.URL, Audience: jwt.ClaimStrings{b.Audience}, Subject: b.Subject, ID: rand.Text(),
			IssuedAt: jwt.NewNumericDate(b.Issued), ExpiresAt: jwt.NewNumericDate(b.Expires),
		},
		Username: b.Username, Groups: b.Groups, Session: b.Session,
	})
}
