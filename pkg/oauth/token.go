package oauth

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/token"
)

// grant is a way to get tokens.
type grant struct {
	name string
	do   func(ctx context.Context, c *Client, f form) (*tokens, error)
}

// grants is the table of what there is; discovery is read off it.
func (s *Server) grants() []grant {
	return []grant{
		{"password", s.password},
		{"refresh_token", s.refresh},
	}
}

// tokens is the answer of the token endpoint (RFC 6749, 5.1; OpenID Connect Core 1.0, 3.1.3.3).
type tokens struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int64  `json:"expires_in"`
	RefreshToken string `json:"refresh_token,omitempty"`
	IDToken      string `json:"id_token,omitempty"`
	Scope        string `json:"scope,omitempty"`
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
				return g.do(r.Context(), c, f)
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

// issue makes the tokens of a session. scopes are those of this answer.
func (s *Server) issue(c *Client, sess *iam.Session, u *iam.User, scopes []string, refresh string) (*tokens, error) {
	now := s.Now().Truncate(time.Second)
	life := s.Clients.Lifetime(c.Name)
	end := life.AccessExpiry(sess, now).Truncate(time.Second)
	access, err := s.Tokens.Access(&token.Access{
		Subject: u.UID, Username: u.Name, Client: c.Name, Session: sess.Name, Scopes: scopes, Issued: now, Expires: end,
		Display: token.Display{Groups: u.Groups, Email: u.Email, Uninitialized: u.Uninitialized},
	})
	if err != nil {
		return nil, err
	}
	t := &tokens{AccessToken: access, TokenType: "Bearer", ExpiresIn: int64(end.Sub(now) / time.Second),
		RefreshToken: refresh, Scope: strings.Join(scopes, " ")}
	if has(scopes, scopeOpenID) {
		if t.IDToken, err = s.identity(c, sess, u, scopes, now, end); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// identity makes an ID token with the claims of the granted scopes.
func (s *Server) identity(c *Client, sess *iam.Session, u *iam.User, scopes []string, now, end time.Time) (string, error) {
	id := &token.Identity{Subject: u.UID, Client: c.Name, Session: sess.Name, Issued: now, Expires: end, Authenticated: sess.Created}
	cl := claimsOf(u, scopes)
	id.Username, id.Name, id.Email, id.Locale = cl.Username, cl.Name, cl.Email, cl.Locale
	return s.Tokens.Identity(id)
}
