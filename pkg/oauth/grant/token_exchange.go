package grant

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/token"
)

// The grant type and the token type of RFC 8693.
const (
	TokenExchange   = "urn:ietf:params:oauth:grant-type:token-exchange"
	TypeAccessToken = "urn:ietf:params:oauth:token-type:access_token" // #nosec G101 -- the name of a type
)

// AudiencePrefix begins the audience of tokens for a cluster, before its name.
const AudiencePrefix = "kapis:"

// exchange is the token exchange (RFC 8693): it exchanges an access token for one for a member cluster, with the same session and
// expiry. Only trusted clients may use it, since the new token carries all rights of the user there.
func (e *Endpoint) exchange(r *http.Request, c *client.Client, f protocol.Form) (*Response, error) {
	if !c.Trusted {
		return nil, protocol.Refuse(protocol.UnauthorizedClient, "This client may not exchange tokens.")
	}
	switch {
	case f["subject_token"] == "" || f["subject_token_type"] != TypeAccessToken:
		return nil, protocol.Refuse(protocol.InvalidRequest, "The subject_token is missing, or its type is not "+TypeAccessToken+".")
	case f["actor_token"] != "" || f["actor_token_type"] != "":
		return nil, protocol.Refuse(protocol.InvalidRequest, "Acting for another is not supported.")
	case f["requested_token_type"] != "" && f["requested_token_type"] != TypeAccessToken:
		return nil, protocol.Refuse(protocol.InvalidRequest, "Only access tokens are issued in exchange.")
	case f["resource"] != "" || !slices.Contains(e.Audiences(), f["audience"]):
		return nil, protocol.Refuse(protocol.InvalidTarget, "The audience has to be the name of a member cluster.")
	}
	a, err := e.Reader.Active(r.Context(), f["subject_token"], e.Verifier.Access)
	if err != nil {
		return nil, err
	}
	if a == nil {
		return nil, protocol.Refuse(protocol.InvalidGrant, "The subject_token is not valid, or no longer.")
	}
	audit.From(r.Context()).SetUser(a.Username, a.Subject)
	scopes, err := client.NarrowScopes(a.Scopes, f["scope"])
	if err != nil {
		return nil, err
	}
	now := e.Now().Truncate(time.Second)
	out, err := e.Issuer.Tokens.Access(&token.Access{Subject: a.Subject, Username: a.Username, Client: a.Client, Session: a.Session,
		Scopes: scopes, Audience: AudiencePrefix + f["audience"], Issued: now, Expires: a.Expires})
	if err != nil {
		return nil, err
	}
	return &Response{AccessToken: out, TokenType: "Bearer", IssuedTokenType: TypeAccessToken,
		ExpiresIn: int64(a.Expires.Sub(now) / time.Second), Scope: strings.Join(scopes, " ")}, nil
}
