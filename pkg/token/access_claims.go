package token

import (
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
