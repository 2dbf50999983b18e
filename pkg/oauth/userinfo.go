package oauth

import (
	"errors"
	"net/http"
	"slices"

	"github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/authn/bearer"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/token"
)

// claims are what is told of a user (OpenID Connect Core 1.0, 5.1).
type claims struct {
	Subject  string `json:"sub"`
	Username string `json:"preferred_username,omitempty"`
	Name     string `json:"name,omitempty"`
	Email    string `json:"email,omitempty"`
	Locale   string `json:"locale,omitempty"`
	// EmailVerified is told only where it is so: an administrator who writes an e-mail has verified nothing.
	EmailVerified bool     `json:"email_verified,omitempty"`
	Groups        []string `json:"groups,omitempty"`
}

// supportedClaims are the claims that an ID token or the userinfo endpoint may have.
func supportedClaims() []string {
	return []string{"iss", "sub", "aud", "iat", "exp", "auth_time", "amr", "nonce", "sid", "preferred_username", "name", "email", "email_verified", "locale", "groups"}
}

// unlimited tells whether a client is told all without a scope: the platform's own ask for none.
func (s *Server) unlimited(client string, scopes []string) bool {
	c := s.Clients.Client(client)
	return len(scopes) == 0 && c != nil && c.Trusted
}

// claimsOf returns the claims of the scopes.
func (s *Server) claimsOf(sess *session.Session, u *iam.User, scopes []string) claims {
	all := s.unlimited(sess.Client, scopes)
	c := claims{Subject: u.UID}
	if all || has(scopes, scopeProfile) {
		c.Username, c.Name, c.Locale = u.Name, u.DisplayName, u.Lang
	}
	if all || has(scopes, scopeEmail) {
		c.Email = u.Email
		c.EmailVerified = u.Email != "" && s.EmailVerified != nil && s.EmailVerified(u)
	}
	if all || has(scopes, scopeGroups) {
		c.Groups = groupsOf(sess, u)
	}
	return c
}

func has(scopes []string, s string) bool { return slices.Contains(scopes, s) }

func (s *Server) userinfo(req *restful.Request) (any, error) {
	r := req.Request
	a, u, err := s.bearer(r, s.Verifier.Issued)
	if err != nil {
		return nil, err
	}
	sess, _, err := s.Sessions.Find(r.Context(), a.Session)
	if errors.Is(err, iam.ErrUnavailable) {
		return nil, err
	}
	if err != nil {
		return nil, badToken(err)
	}
	if !has(a.Scopes, scopeOpenID) && !s.unlimited(a.Client, a.Scopes) || isClient(sess) {
		return nil, &Error{Code: http.StatusForbidden, Name: insufficientScope, Description: "The access token lacks the scope openid.",
			Challenge: `Bearer error="insufficient_scope", scope="openid"`}
	}
	return s.claimsOf(sess, u, a.Scopes), nil
}

// isClient tells whether a session is that of a client that acts for itself.
func isClient(sess *session.Session) bool {
	return sess.Client != "" && sess.User == clientPrefix+sess.Client
}

// clientPrefix stands before the name of a client that acts for itself: no User has such a name, and no UID is one (RFC 9700, 4.15).
const clientPrefix = "client:"

// bearer returns the access token of a request, as verify takes it, and its user (RFC 6750, 2 and 3): the header is the one
// way to send it, and no other may stand beside it.
func (s *Server) bearer(r *http.Request, verify func(string) (*token.Access, error)) (*token.Access, *iam.User, error) {
	raw, found, err := bearer.FromHeader(r.Header)
	if err != nil {
		return nil, nil, badToken(err)
	}
	if !found {
		return nil, nil, &Error{Code: http.StatusUnauthorized, Name: loginRequired, Challenge: "Bearer",
			Description: "An access token is needed, in the Authorization header."}
	}
	if r.URL.Query().Has("access_token") || inBody(r) {
		return nil, nil, &Error{Code: http.StatusBadRequest, Name: invalidRequest, Challenge: `Bearer error="invalid_request"`,
			Description: "The access token is sent in more than one way."}
	}
	a, err := verify(raw)
	if err != nil {
		return nil, nil, badToken(err)
	}
	u, err := s.Sessions.Resolve(r.Context(), a)
	if errors.Is(err, iam.ErrUnavailable) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, badToken(err)
	}
	return a, u, nil
}

// inBody tells whether the form of a request has an access token (RFC 6750, 2.2), which this server takes from the header alone.
func inBody(r *http.Request) bool {
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") == "" {
		return false
	}
	values, err := readValues(nil, r)
	return err == nil && values.Has("access_token")
}

func badToken(err error) *Error {
	return &Error{Code: http.StatusUnauthorized, Name: invalidToken, Description: "The access token is not valid, or no longer.",
		Challenge: `Bearer error="invalid_token"`, cause: err}
}
