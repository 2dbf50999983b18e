package tokeninfo

import (
	"errors"
	"net/http"
	"slices"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/claim"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/token"
)

// UserInfo is the userinfo endpoint (OpenID Connect Core 1.0, 5.3).
type UserInfo struct {
	Reader   *Reader
	Sessions *session.Store
	Verifier *token.Verifier
	Claims   *claim.Source
}

// Serve returns the claims of the access token's user.
func (e *UserInfo) Serve(req *restful.Request) (any, error) {
	r := req.Request
	a, u, err := e.Reader.FromHeader(r, e.Verifier.Issued)
	if err != nil {
		return nil, err
	}
	sess, _, err := e.Sessions.Find(r.Context(), a.Session)
	if errors.Is(err, iam.ErrUnavailable) {
		return nil, err
	}
	if err != nil {
		return nil, badToken(err)
	}
	if !slices.Contains(a.Scopes, client.ScopeOpenID) && !e.Claims.Unlimited(a.Client, a.Scopes) || isClient(sess) {
		return nil, &protocol.Error{Code: http.StatusForbidden, Name: protocol.InsufficientScope,
			Description: "The access token lacks the scope openid.",
			Challenge:   `Bearer error="insufficient_scope", scope="openid"`}
	}
	return e.Claims.Of(sess, u, a.Scopes), nil
}

// isClient reports whether a session is that of a client that acts for itself.
func isClient(sess *session.Session) bool {
	return sess.Client != "" && sess.User == clientPrefix+sess.Client
}

// clientPrefix begins the subject of a client that acts for itself. No user has such a name or UID (RFC 9700, 4.15).
const clientPrefix = "client:"
