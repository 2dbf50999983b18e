package oauth

import (
	"errors"
	"net/http"
	"slices"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/authn/bearer"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/token"
)

// claims are what is told of a user (OpenID Connect Core 1.0, 5.1). email_verified is not among them,
// since nobody verified it.
type claims struct {
	Subject  string `json:"sub"`
	Username string `json:"preferred_username,omitempty"`
	Name     string `json:"name,omitempty"`
	Email    string `json:"email,omitempty"`
	Locale   string `json:"locale,omitempty"`
}

// supportedClaims are the claims that an ID token or the userinfo endpoint may have.
func supportedClaims() []string {
	return []string{"iss", "sub", "aud", "iat", "exp", "auth_time", "sid", "preferred_username", "name", "email", "locale"}
}

// claimsOf returns the claims of the scopes. The platform's own clients ask for no scope, and get all.
func claimsOf(u *iam.User, scopes []string) claims {
	all := len(scopes) == 0
	c := claims{Subject: u.UID}
	if all || has(scopes, scopeProfile) {
		c.Username, c.Name, c.Locale = u.Name, u.DisplayName, u.Lang
	}
	if all || has(scopes, scopeEmail) {
		c.Email = u.Email
	}
	return c
}

func has(scopes []string, s string) bool { return slices.Contains(scopes, s) }

func (s *Server) userinfo(req *restful.Request) (any, error) {
	a, u, err := s.bearer(req.Request)
	if err != nil {
		return nil, err
	}
	if len(a.Scopes) > 0 && !has(a.Scopes, scopeOpenID) {
		return nil, &Error{Code: http.StatusForbidden, Name: insufficientScope, Description: "The access token lacks the scope openid.",
			Challenge: `Bearer error="insufficient_scope", scope="openid"`}
	}
	return claimsOf(u, a.Scopes), nil
}

// bearer returns the access token of a request and its user (RFC 6750, 2 and 3): the header is the one
// way to send it, and no other may stand beside it.
func (s *Server) bearer(r *http.Request) (*token.Access, *iam.User, error) {
	raw, found, err := bearer.FromHeader(r.Header)
	if err != nil {
		return nil, nil, badToken(err)
	}
	if !found {
		return nil, nil, &Error{Code: http.StatusUnauthorized, Name: loginRequired, Challenge: "Bearer",
			Description: "An access token is needed, in the Authorization header."}
	}
	if r.URL.Query().Has("access_token") {
		return nil, nil, &Error{Code: http.StatusBadRequest, Name: invalidRequest, Challenge: `Bearer error="invalid_request"`,
			Description: "The access token is sent in more than one way."}
	}
	a, err := s.Verifier.Access(raw)
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

func badToken(err error) *Error {
	return &Error{Code: http.StatusUnauthorized, Name: invalidToken, Description: "The access token is not valid, or no longer.",
		Challenge: `Bearer error="invalid_token"`, cause: err}
}
