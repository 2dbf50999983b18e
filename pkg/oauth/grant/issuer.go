package grant

import (
	"slices"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/claim"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/token"
)

// Response is a token response (RFC 6749, 5.1; OpenID Connect Core 1.0, 3.1.3.3).
type Response struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int64  `json:"expires_in"`
	RefreshToken string `json:"refresh_token,omitempty"`
	IDToken      string `json:"id_token,omitempty"`
	Scope        string `json:"scope,omitempty"`
	// IssuedTokenType is for token exchange alone (RFC 8693, 2.2.1).
	IssuedTokenType string `json:"issued_token_type,omitempty"`
}

// Session is what a token response is issued for.
type Session struct {
	Session *session.Session
	// User is nil if a client acts for itself, or a user has still to register.
	User *iam.User
	// Scopes are those of this response.
	Scopes []string
	// Refresh is the refresh token; "" for none.
	Refresh string
	// Nonce is that of the authorization request; "" for other grants.
	Nonce string
}

// Issuer issues token responses for sessions.
type Issuer struct {
	// URL is the issuer in tokens.
	URL     string
	Tokens  *token.Issuer
	Clients *client.Registry
	Claims  *claim.Source
	Now     func() time.Time
}

// Issue returns the token response of a client's session.
func (i *Issuer) Issue(c *client.Client, of *Session) (*Response, error) {
	now := i.Now().Truncate(time.Second)
	end := i.Clients.Lifetime(c.Name).AccessExpiry(of.Session, now).Truncate(time.Second)
	a := &token.Access{
		Subject: of.Session.UserUID, Username: of.Session.User, Client: c.Name, Session: of.Session.Name,
		Scopes: of.Scopes, Issued: now, Expires: end,
	}
	if reg := of.Session.Registration; reg != nil {
		a.Display.Extra = reg.Extra()
	}
	if !c.ForAPI() {
		a.Audience = token.UserInfo(i.URL)
	}
	if of.User != nil { // only claims that the client may know, since it can read the token (RFC 9068, 6)
		cl := i.Claims.Of(of.Session, of.User, of.Scopes)
		a.Display.Groups, a.Display.Email, a.Display.Uninitialized = cl.Groups, cl.Email, of.User.Uninitialized
	}
	access, err := i.Tokens.Access(a)
	if err != nil {
		return nil, err
	}
	t := &Response{AccessToken: access, TokenType: "Bearer", ExpiresIn: int64(end.Sub(now) / time.Second),
		RefreshToken: of.Refresh, Scope: strings.Join(of.Scopes, " ")}
	if slices.Contains(of.Scopes, client.ScopeOpenID) && of.User != nil && of.Session.Registration == nil {
		if t.IDToken, err = i.identity(c, of, now, end); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// identity returns an ID token with the claims of the granted scopes.
func (i *Issuer) identity(c *client.Client, of *Session, now, end time.Time) (string, error) {
	id := &token.Identity{Subject: of.User.UID, Client: c.Name, Session: of.Session.Name, Issued: now, Expires: end,
		Authenticated: of.Session.Authenticated, Methods: of.Session.Methods, Nonce: of.Nonce}
	switch {
	case id.Authenticated.IsZero():
		id.Authenticated = of.Session.Created
	case id.Authenticated.Equal(iam.TimeUnknown):
		id.Authenticated = time.Time{} // no auth_time instead of a wrong one
	}
	cl := i.Claims.Of(of.Session, of.User, of.Scopes)
	id.Username, id.Name, id.Email, id.Locale = cl.Username, cl.Name, cl.Email, cl.Locale
	id.EmailVerified, id.Groups = cl.EmailVerified, cl.Groups
	return i.Tokens.Identity(id)
}
