package oauth

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/token"
)

// The words of RFC 8693.
const (
	grantExchange   = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeAccessToken = "urn:ietf:params:oauth:token-type:access_token" // #nosec G101 -- the name of a type
)

// AudiencePrefix stands before the name of a cluster in the audience of the tokens for it.
const AudiencePrefix = "kapis:"

// exchange is the grant of RFC 8693, for one thing: an access token of ours gets one for a member cluster, of the same session, which
// lives no longer. Only the platform's own clients may, since the token is good for all that its user may do there.
func (s *Server) exchange(r *http.Request, c *Client, f form) (*tokens, error) {
	if !c.Trusted {
		return nil, refuse(unauthorized, "This client may not exchange tokens.")
	}
	switch {
	case f["subject_token"] == "" || f["subject_token_type"] != typeAccessToken:
		return nil, refuse(invalidRequest, "The subject_token is missing, or its type is not "+typeAccessToken+".")
	case f["actor_token"] != "" || f["actor_token_type"] != "":
		return nil, refuse(invalidRequest, "Acting for another is not supported.")
	case f["requested_token_type"] != "" && f["requested_token_type"] != typeAccessToken:
		return nil, refuse(invalidRequest, "Only access tokens are issued in exchange.")
	case f["resource"] != "" || !slices.Contains(s.Audiences(), f["audience"]):
		return nil, refuse(invalidTarget, "The audience has to be the name of a member cluster.")
	}
	a, err := s.active(r.Context(), f["subject_token"], s.Verifier.Access)
	if err != nil {
		return nil, err
	}
	if a == nil {
		return nil, refuse(invalidGrant, "The subject_token is not valid, or no longer.")
	}
	scopes, err := narrowScopes(a.Scopes, f["scope"])
	if err != nil {
		return nil, err
	}
	now := s.Now().Truncate(time.Second)
	out, err := s.Tokens.Access(&token.Access{Subject: a.Subject, Username: a.Username, Client: a.Client, Session: a.Session, Scopes: scopes,
		Audience: AudiencePrefix + f["audience"], Issued: now, Expires: a.Expires})
	if err != nil {
		return nil, err
	}
	return &tokens{AccessToken: out, TokenType: "Bearer", IssuedTokenType: typeAccessToken,
		ExpiresIn: int64(a.Expires.Sub(now) / time.Second), Scope: strings.Join(scopes, " ")}, nil
}
