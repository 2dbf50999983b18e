package oauth

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/token"
)

// grant is a way to get tokens.
type grant struct {
	name string
	do   func(r *http.Request, c *Client, f form) (*tokens, error)
}

// grants is the table of what there is; discovery is read off it.
func (s *Server) grants() []grant {
	all := []grant{
		{"authorization_code", s.authorizationCode},
		{"refresh_token", s.refresh},
		{"client_credentials", s.clientCredentials},
		{"urn:ietf:params:oauth:grant-type:device_code", s.deviceCode},
	}
	if s.Audiences != nil {
		all = append(all, grant{grantExchange, s.exchange})
	}
	if s.PasswordGrant {
		all = append(all, grant{"password", s.password}, grant{"otp", s.secondFactor})
	}
	return all
}

// tokens is the answer of the token endpoint (RFC 6749, 5.1; OpenID Connect Core 1.0, 3.1.3.3).
type tokens struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int64  `json:"expires_in"`
	RefreshToken string `json:"refresh_token,omitempty"`
	IDToken      string `json:"id_token,omitempty"`
	Scope        string `json:"scope,omitempty"`
	// IssuedTokenType is for token exchange alone (RFC 8693, 2.2.1).
	IssuedTokenType string `json:"issued_token_type,omitempty"`
}

// leastLife is what is left of a session at least where tokens are issued for it: the console
// refreshes at each call when expires_in is below it, and would do so until the session is over.
const leastLife = 600 * time.Second

func (s *Server) token(req *restful.Request) (any, error) {
	r := req.Request
	name := "none"
	t, err := func() (*tokens, error) {
		f, err := readForm(nil, r)
		if err != nil {
			return nil, err
		}
		c, err := s.authenticateClient(r, f)
		if err != nil {
			return nil, err
		}
		if f["grant_type"] == "" {
			return nil, refuse(invalidRequest, "The grant_type is missing.")
		}
		for _, g := range s.grants() {
			if g.name == f["grant_type"] {
				name = g.name
				if e := s.target(c, f); e != nil {
					return nil, e
				}
				return g.do(r, c, f)
			}
		}
		return nil, refuse(unsupportedGrant, "The grant_type is not one that this server supports.")
	}()
	s.results.WithLabelValues(name, outcome(err)).Inc()
	if err != nil {
		return nil, err
	}
	return t, nil
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	var e *Error
	if !errors.As(err, &e) {
		e = failure(err)
	}
	if e.Code == http.StatusTooManyRequests {
		return "limited"
	}
	return e.Name
}

// issued is what tokens are made of.
type issued struct {
	session *session.Session
	// user is nil where the session is none of a User.
	user *iam.User
	// scopes are those of this answer.
	scopes []string
	// refresh is the refresh token; "" for none.
	refresh string
	// nonce is that of the authorization request; "" but for the tokens of a code.
	nonce string
}

// groupsOf are the groups that count: the User's own, and what the provider gave at login.
func groupsOf(sess *session.Session, u *iam.User) []string {
	var out []string
	if u != nil {
		out = slices.Clone(u.Groups)
	}
	for _, g := range sess.Groups {
		if !slices.Contains(out, g) {
			out = append(out, g)
		}
	}
	return out
}

// issue makes the tokens of a session.
func (s *Server) issue(c *Client, i *issued) (*tokens, error) {
	now := s.Now().Truncate(time.Second)
	end := s.Clients.Lifetime(c.Name).AccessExpiry(i.session, now).Truncate(time.Second)
	a := &token.Access{
		Subject: i.session.UserUID, Username: i.session.User, Client: c.Name, Session: i.session.Name, Scopes: i.scopes, Issued: now, Expires: end,
	}
	if reg := i.session.Registration; reg != nil {
		a.Display.Extra = reg.Extra()
	}
	if !c.forAPI() {
		a.Audience = token.UserInfo(s.Issuer)
	}
	if i.user != nil { // anybody can read it who gets hold of the token: no more than what the client may know (RFC 9068, 6)
		cl := s.claimsOf(i.session, i.user, i.scopes)
		a.Display.Groups, a.Display.Email, a.Display.Uninitialized = cl.Groups, cl.Email, i.user.Uninitialized
	}
	access, err := s.Tokens.Access(a)
	if err != nil {
		return nil, err
	}
	t := &tokens{AccessToken: access, TokenType: "Bearer", ExpiresIn: int64(end.Sub(now) / time.Second),
		RefreshToken: i.refresh, Scope: strings.Join(i.scopes, " ")}
	if has(i.scopes, scopeOpenID) && i.user != nil && i.session.Registration == nil {
		if t.IDToken, err = s.identity(c, i, now, end); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// identity makes an ID token with the claims of the granted scopes.
func (s *Server) identity(c *Client, i *issued, now, end time.Time) (string, error) {
	id := &token.Identity{Subject: i.user.UID, Client: c.Name, Session: i.session.Name, Issued: now, Expires: end,
		Authenticated: i.session.Authenticated, Methods: i.session.Methods, Nonce: i.nonce}
	switch {
	case id.Authenticated.IsZero():
		id.Authenticated = i.session.Created
	case id.Authenticated.Equal(iam.TimeUnknown):
		id.Authenticated = time.Time{} // no auth_time, rather than a wrong one
	}
	cl := s.claimsOf(i.session, i.user, i.scopes)
	id.Username, id.Name, id.Email, id.Locale = cl.Username, cl.Name, cl.Email, cl.Locale
	id.EmailVerified, id.Groups = cl.EmailVerified, cl.Groups
	return s.Tokens.Identity(id)
}
