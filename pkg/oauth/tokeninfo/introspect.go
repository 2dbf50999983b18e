package tokeninfo

import (
	"net/http"
	"strings"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/token"
)

// introspection is the introspection response (RFC 7662, 2.2). That of an invalid token has active only.
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

// Introspection is the introspection endpoint (RFC 7662).
type Introspection struct {
	ClientAuth *client.Authenticator
	Reader     *Reader
	Verifier   *token.Verifier
	Issuer     string
}

// Serve answers an introspection request. Clients may ask about their own access tokens, and trusted clients about all.
func (i *Introspection) Serve(req *restful.Request) (any, error) {
	r := req.Request
	f, err := protocol.ReadForm(r)
	if err != nil {
		return nil, err
	}
	if f["client_id"] == "" && len(r.Header["Authorization"]) == 0 {
		return nil, client.AuthError(true, http.StatusUnauthorized, protocol.InvalidClient, "Only a client with a secret may ask.")
	}
	c, err := i.ClientAuth.Authenticate(r, f)
	if err != nil {
		return nil, err
	}
	if c.Secret == "" {
		return nil, client.AuthError(true, http.StatusUnauthorized, protocol.InvalidClient, "Only a client with a secret may ask.")
	}
	if f["token"] == "" {
		return nil, protocol.Refuse(protocol.InvalidRequest, "The token is missing.")
	}
	a, err := i.Reader.Active(r.Context(), f["token"], i.Verifier.Issued)
	if err != nil {
		return nil, err
	}
	if a == nil || a.Client != c.Name && !c.Trusted {
		return &introspection{}, nil
	}
	return &introspection{Active: true, Scope: strings.Join(a.Scopes, " "), Client: a.Client, Username: a.Username, Type: "Bearer",
		Expires: a.Expires.Unix(), Issued: a.Issued.Unix(), Subject: a.Subject, Audience: a.Audience, Issuer: i.Issuer, ID: a.ID}, nil
}
