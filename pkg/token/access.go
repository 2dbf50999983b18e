package token

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// The values of the header typ, which distinguishes the kinds of token (RFC 8725, 3.11).
const (
	typeAccess   = "at+jwt" // RFC 9068, 2.1
	typeIdentity = "JWT"
)

// Access has the claims of an access token (RFC 9068). It says who logged in, not what they may do: rights, groups and the user's state
// are read again at each request.
type Access struct {
	// ID is the jti.
	ID string
	// Subject is the UID of the User: a User who is deleted and created again is another subject.
	Subject string
	// Username is the name of the User.
	Username string
	// Client is the OAuth client that the token was issued to.
	Client string
	// Session is the name of the session whose end ends the token.
	Session string
	// Scopes are the granted scopes; none if the client asked for none.
	Scopes []string
	// Issued and Expires are iat and exp, in whole seconds.
	Issued, Expires time.Time
	// Audience is the aud: the recipient of the token (RFC 9068, 3). An Issuer writes its own, this cluster's API, for "". Others are
	// UserInfo, and another cluster's API (RFC 8693), which no Verifier of this one accepts.
	Audience string
	// Display is what a page may show unverified. It is written, and never read.
	Display Display
}

// UserInfo returns the audience of access tokens that are only good for the userinfo endpoint of an issuer: its address.
func UserInfo(issuer string) string { return strings.TrimSuffix(issuer, "/") + "/oauth/userinfo" }

// Display has claims that the console reads out of an access token without verifying it, to choose the page to show. They decide nothing.
type Display struct {
	Groups        []string
	Email         string
	Uninitialized bool
	// Extra is written next to them, as it is.
	Extra map[string][]string
}

// maxDisplayGroups and maxDisplayBytes bound the groups in a token, because it is sent in a cookie of at most 4096 bytes. Beyond them the
// claim is left out.
const (
	maxDisplayGroups = 16
	maxDisplayBytes  = 512
	// An ID token is sent in answers and headers.
	maxIdentityGroups = 256
	maxIdentityBytes  = 4 << 10
)

type accessClaims struct {
	jwt.RegisteredClaims
	ClientID string              `json:"client_id"`
	Session  string              `json:"sid"`
	Scope    string              `json:"scope,omitempty"`
	Username string              `json:"username"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

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

// Issuer signs tokens.
type Issuer struct {
	Keys KeySource
	// URL is the iss of every token.
	URL string
	// Audience is the aud of access tokens: this cluster's API, as its Verifier expects it.
	Audience string
	// Now returns the time.
	Now func() time.Time
}

// Access signs an access token. It generates the ID.
func (i *Issuer) Access(a *Access) (string, error) {
	c := accessClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: i.URL, Audience: jwt.ClaimStrings{cmp.Or(a.Audience, i.Audience)}, Subject: a.Subject, ID: rand.Text(),
			IssuedAt: jwt.NewNumericDate(a.Issued), ExpiresAt: jwt.NewNumericDate(a.Expires),
		},
		ClientID: a.Client, Session: a.Session, Scope: strings.Join(a.Scopes, " "),
		Username: a.Username, Groups: bounded(a.Display.Groups), Extra: a.Display.extra(),
	}
	return i.sign(typeAccess, c)
}

// extra returns the claim of that name, or nil for none.
func (d *Display) extra() map[string][]string {
	if d.Email == "" && !d.Uninitialized {
		return d.Extra
	}
	out := make(map[string][]string, len(d.Extra)+2)
	maps.Copy(out, d.Extra)
	if d.Email != "" {
		out["email"] = []string{d.Email}
	}
	if d.Uninitialized {
		out["uninitialized"] = []string{"true"}
	}
	return out
}

// Identity signs an ID token.
func (i *Issuer) Identity(id *Identity) (string, error) {
	c := identityClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: i.URL, Audience: jwt.ClaimStrings{id.Client}, Subject: id.Subject,
			IssuedAt: jwt.NewNumericDate(id.Issued), ExpiresAt: jwt.NewNumericDate(id.Expires),
		},
		Session:  id.Session,
		Username: id.Username, Name: id.Name, Email: id.Email, EmailVerified: id.EmailVerified, Locale: id.Locale,
		Methods: id.Methods, Nonce: id.Nonce, Groups: boundedTo(id.Groups, maxIdentityGroups, maxIdentityBytes),
	}
	if !id.Authenticated.IsZero() {
		c.Authenticated = jwt.NewNumericDate(id.Authenticated)
	}
	return i.sign(typeIdentity, c)
}

func (i *Issuer) sign(typ string, c jwt.Claims) (string, error) {
	key, err := i.Keys.KeySet().signer(i.Now())
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	t := jwt.NewWithClaims(jwt.SigningMethodRS256, c)
	t.Header["typ"], t.Header["kid"] = typ, key.ID
	s, err := t.SignedString(key.Private)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return s, nil
}

func bounded(groups []string) []string { return boundedTo(groups, maxDisplayGroups, maxDisplayBytes) }

// boundedTo returns the groups, or none if they exceed the bounds.
func boundedTo(groups []string, most, bytes int) []string {
	if len(groups) > most {
		return nil
	}
	size := 0
	for _, g := range groups {
		size += len(g)
	}
	if size > bytes {
		return nil
	}
	return groups
}
