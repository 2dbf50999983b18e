package oauth

import (
	"net/http"
	"slices"

	"kapis.dev/ks-apiserver/pkg/iam/session"
)

// clientCredentials is the grant of that name (RFC 6749, 4.4): the client is its own user. There is nobody to identify, and
// nothing to refresh: the client can ask again.
func (s *Server) clientCredentials(r *http.Request, c *Client, f form) (*tokens, error) {
	if c.Secret == "" {
		return nil, refuse(unauthorized, "A client without a secret can't act for itself.")
	}
	if len(c.Secret) < leastSecret { // such as the console's, which everybody knows: whoever asks would be somebody who is logged in
		return nil, refuse(unauthorized, "A client whose secret can be guessed can't act for itself; the administrator gives it a random one of 32 characters.")
	}
	if !c.forAPI() {
		return nil, refuse(unauthorized, "Access tokens of this client are not for the API, so that it could do nothing as itself; the administrator lists api in its scopeRestrictions.")
	}
	scopes, err := grantScopes(c, f["scope"])
	if err != nil {
		return nil, err
	}
	scopes = slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return s != scopeProfile && s != scopeGroups && s != scopeAPI })
	if f["scope"] != "" && len(scopes) == 0 {
		return nil, refuse(invalidScope, "A client that acts for itself has no identity to tell of.")
	}
	sess, _, err := s.Sessions.Open(r.Context(), session.Login{Origin: s.originOf(r), Client: c.Name, Scopes: scopes, NoRefresh: true})
	if err != nil {
		return nil, err
	}
	return s.issue(c, &issued{session: sess, scopes: scopes})
}
