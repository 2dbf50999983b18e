package tokeninfo

import (
	"net/http"
	"time"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/token"
)

// emptyResponse is the response with status 200 and no body (RFC 7009, 2.2).
type emptyResponse struct{}

// Respond writes the response.
func (emptyResponse) Respond(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

// Revocation is the revocation endpoint (RFC 7009).
type Revocation struct {
	ClientAuth *client.Authenticator
	Sessions   *session.Store
	Verifier   *token.Verifier
	Keys       token.KeySource
	Now        func() time.Time
}

// Serve ends the session of a token, and so revokes its refresh token and all access tokens. Unknown and expired tokens count as
// revoked. The hint is not needed to tell the kinds of tokens apart.
func (v *Revocation) Serve(req *restful.Request) (any, error) {
	r := req.Request
	f, err := protocol.ReadForm(r)
	if err != nil {
		return nil, err
	}
	c, err := v.ClientAuth.Authenticate(r, f)
	if err != nil {
		return nil, err
	}
	if f["token"] == "" {
		return nil, protocol.Refuse(protocol.InvalidRequest, "The token is missing.")
	}
	name := ""
	if t, err := token.ParseRefresh(f["token"]); err == nil && v.Keys.KeySet().MadeRefresh(t, v.Now()) {
		name = t.Session
	} else if a, err := v.Verifier.Issued(f["token"]); err == nil {
		name = a.Session
	} else if _, err := v.Verifier.Identity(f["token"]); err == nil {
		return nil, protocol.Refuse("unsupported_token_type", "An ID token can't be revoked: it says who logged in, and opens nothing.")
	}
	if name == "" {
		return emptyResponse{}, nil
	}
	sess, _, err := v.Sessions.Find(r.Context(), name)
	if err != nil { // ended, or not known now
		return emptyResponse{}, Undecided(err)
	}
	if sess.Client != c.Name {
		return nil, protocol.Refuse(protocol.InvalidGrant, "The token was issued to another client.")
	}
	event := audit.From(r.Context())
	event.SetLogin(audit.VerbLogout, "", "")
	event.SetClient(c.Name)
	event.SetUser(sess.User, sess.UserUID)
	if err := v.Sessions.End(r.Context(), name, "revoked"); err != nil {
		return nil, err
	}
	return emptyResponse{}, nil
}
