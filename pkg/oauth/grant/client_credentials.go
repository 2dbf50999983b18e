package grant

import (
	"net/http"
	"slices"

	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// clientCredentials is the grant of that name (RFC 6749, 4.4): the client acts for itself. There is no ID token and no refresh token.
func (e *Endpoint) clientCredentials(r *http.Request, c *client.Client, f protocol.Form) (*Response, error) {
	if c.Secret == "" {
		return nil, protocol.Refuse(protocol.UnauthorizedClient, "A client without a secret can't act for itself.")
	}
	if len(c.Secret) < client.LeastSecret { // such as the console's, which is public knowledge
		return nil, protocol.Refuse(protocol.UnauthorizedClient,
			"A client whose secret can be guessed can't act for itself; the administrator gives it a random one of 32 characters.")
	}
	if !c.ForAPI() {
		return nil, protocol.Refuse(protocol.UnauthorizedClient,
			"Access tokens of this client are not for the API, so that it could do nothing as itself; "+
				"the administrator lists api in its scopeRestrictions.")
	}
	scopes, err := client.GrantScopes(c, f["scope"])
	if err != nil {
		return nil, err
	}
	scopes = slices.DeleteFunc(slices.Clone(scopes), func(s string) bool {
		return s != client.ScopeProfile && s != client.ScopeGroups && s != client.ScopeAPI
	})
	if f["scope"] != "" && len(scopes) == 0 {
		return nil, protocol.Refuse(protocol.InvalidScope, "A client that acts for itself has no identity to tell of.")
	}
	sess, _, err := e.Sessions.Open(r.Context(), session.Login{Origin: e.OriginOf(r), Client: c.Name, Scopes: scopes, NoRefresh: true})
	if err != nil {
		return nil, err
	}
	return e.Issuer.Issue(c, &Session{Session: sess, Scopes: scopes})
}
