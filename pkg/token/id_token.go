package token

import (
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Identity has the claims of an ID token (OpenID Connect Core 1.0, 2).
type Identity struct {
	// Subject is the same as that of the access token.
	Subject string
	// Client is the audience.
	Client string
	// Session is the session that the token was issued in.
	Session string
	// Issued, Expires and Authenticated are iat, exp and auth_time, in whole seconds.
	Issued, Expires, Authenticated time.Time
	// Username, Name, Email and Locale are the claims of scopes profile and email; empty if their scope was not granted.
	Username, Name, Email, Locale string
	// Nonce is that of the authorization request; "" if it had none.
	Nonce string
	// Groups are those of the scope groups. They are left out if there are too many.
	Groups []string
	// EmailVerified reports whether an identity provider has verified the e-mail.
	EmailVerified bool
	// Methods are the user's authentication methods: amr (RFC 8176).
	Methods []string
}

// maxIdentityGroups and maxIdentityBytes bound the groups in an ID token, which is sent in answers and headers.
const (
	maxIdentityGroups = 256
	maxIdentityBytes  = 4 << 10
)

type identityClaims struct {
	jwt.RegisteredClaims
	Session       string           `json:"sid,omitempty"`
	Authenticated *jwt.NumericDate `json:"auth_time,omitempty"`
	Username      string           `json:"preferred_username,omitempty"`
	Name          string           `json:"name,omitempty"`
	Email         string           `json:"email,omitempty"`
	Locale        string           `json:"locale,omitempty"`
	Nonce         string           `json:"nonce,omitempty"`
	Groups        []string         `json:"groups,omitempty"`
	EmailVerified bool             `json:"email_verified,omitempty"`
	Methods       []string         `json:"amr,omitempty"`
}
