package token

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

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
