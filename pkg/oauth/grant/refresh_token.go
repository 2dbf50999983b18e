package grant

import (
	"errors"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// refresh is the grant of that name (RFC 6749, 6).
func (e *Endpoint) refresh(r *http.Request, c *client.Client, f protocol.Form) (*Response, error) {
	if f["refresh_token"] == "" {
		return nil, protocol.Refuse(protocol.InvalidRequest, "The refresh_token is missing.")
	}
	var scopes []string
	sess, u, next, err := e.Sessions.Refresh(r.Context(), c.Name, f["refresh_token"], func(sess *session.Session) (err error) {
		life := e.Clients.Lifetime(c.Name)
		if left := sess.Expires.Sub(e.Now()); left < leastLife && (life.MaxAge == 0 || life.MaxAge >= leastLife) {
			return protocol.Refuse(protocol.InvalidGrant, "The session has reached its end; log in again.")
		}
		scopes, err = client.NarrowScopes(sess.Scopes, f["scope"])
		return err
	})
	if errors.Is(err, iam.ErrRefresh) {
		return nil, protocol.Refuse(protocol.InvalidGrant, "The refresh token is not valid, or no longer; log in again.").Because(err)
	}
	if err != nil {
		return nil, err
	}
	audit.From(r.Context()).SetUser(sess.User, sess.UserUID)
	return e.Issuer.Issue(c, &Session{Session: sess, User: u, Scopes: scopes, Refresh: next})
}
