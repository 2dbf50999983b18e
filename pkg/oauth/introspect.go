package oauth

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/token"
)

// introspection is RFC 7662, 2.2. One of a token that is not good has nothing but active.
type introspection struct {
	Active   bool   `json:"active"`
	Scope    string `json:"scope,omitempty"`
	Client   string `json:"client_id,omitempty"`
	Username string `json:"username,omitempty"`
	Type     string `json:"token_type,omitempty"`
	Expires  int64  `json:"exp,omitempty"`
	Issued   int64  `json:"iat,omitempty"`
	Subject  string `json:"sub,omitempty"`
	Audience string `json:"aud,omitempty"`
	Issuer   string `json:"iss,omitempty"`
	ID       string `json:"jti,omitempty"`
}

// introspect tells a resource server about an access token: its own client's, and any to the platform's own clients (RFC 7662).
// Refresh tokens are nobody's business but the client's.
func (s *Server) introspect(req *restful.Request) (any, error) {
	r := req.Request
	f, err := readForm(nil, r)
	if err != nil {
		return nil, err
	}
	if f["client_id"] == "" && len(r.Header["Authorization"]) == 0 {
		return nil, clientError(true, http.StatusUnauthorized, invalidClient, "Only a client with a secret may ask.")
	}
	c, err := s.authenticateClient(r, f)
	if err != nil {
		return nil, err
	}
	if c.Secret == "" {
		return nil, clientError(true, http.StatusUnauthorized, invalidClient, "Only a client with a secret may ask.")
	}
	if f["token"] == "" {
		return nil, refuse(invalidRequest, "The token is missing.")
	}
	a, err := s.active(r.Context(), f["token"], s.Verifier.Issued)
	if err != nil {
		return nil, err
	}
	if a == nil || a.Client != c.Name && !c.Trusted {
		return &introspection{}, nil
	}
	return &introspection{Active: true, Scope: strings.Join(a.Scopes, " "), Client: a.Client, Username: a.Username, Type: "Bearer",
		Expires: a.Expires.Unix(), Issued: a.Issued.Unix(), Subject: a.Subject, Audience: a.Audience, Issuer: s.Issuer, ID: a.ID}, nil
}

// active returns an access token that verify takes and that is good now; nil for one that is not. Its error says that it can't be told.
func (s *Server) active(ctx context.Context, raw string, verify func(string) (*token.Access, error)) (*token.Access, error) {
	a, err := verify(raw)
	if err == nil {
		_, err = s.Sessions.Resolve(ctx, a)
	}
	if err != nil {
		return nil, undecided(err)
	}
	return a, nil
}

// undecided returns an error that says that it can't be told now; nil for one that says no.
func undecided(err error) error {
	if errors.Is(err, iam.ErrUnavailable) {
		return err
	}
	return nil
}
