package oauth

import (
	"errors"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
)

// refresh is the grant of that name (RFC 6749, 6).
func (s *Server) refresh(r *http.Request, c *Client, f form) (*tokens, error) {
	if f["refresh_token"] == "" {
		return nil, refuse(invalidRequest, "The refresh_token is missing.")
	}
	var scopes []string
	sess, u, next, err := s.Sessions.Refresh(r.Context(), c.Name, f["refresh_token"], func(sess *session.Session) (err error) {
		life := s.Clients.Lifetime(c.Name)
		if left := sess.Expires.Sub(s.Now()); left < leastLife && (life.MaxAge == 0 || life.MaxAge >= leastLife) {
			return refuse(invalidGrant, "The session has reached its end; log in again.")
		}
		scopes, err = narrowScopes(sess.Scopes, f["scope"])
		return err
	})
	if errors.Is(err, iam.ErrRefresh) {
		return nil, refuse(invalidGrant, "The refresh token is not valid, or no longer; log in again.").because(err)
	}
	if err != nil {
		return nil, err
	}
	return s.issue(c, &issued{session: sess, user: u, scopes: scopes, refresh: next})
}
