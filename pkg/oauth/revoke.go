package oauth

import (
	"net/http"

	"github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/token"
)

// emptyResponse is the answer that says nothing but yes (RFC 7009, 2.2).
type emptyResponse struct{}

// Respond writes it.
func (emptyResponse) Respond(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

// revoke ends the session of a token, and with it the refresh token and every access token (RFC 7009). What is no token of
// ours, or none that still counts, is revoked already. The hint is not needed to tell the two kinds apart.
func (s *Server) revoke(req *restful.Request) (any, error) {
	r := req.Request
	f, err := readForm(nil, r)
	if err != nil {
		return nil, err
	}
	c, err := s.authenticateClient(r, f)
	if err != nil {
		return nil, err
	}
	if f["token"] == "" {
		return nil, refuse(invalidRequest, "The token is missing.")
	}
	name := ""
	if t, err := token.ParseRefresh(f["token"]); err == nil && s.Keys.KeySet().MadeRefresh(t, s.Now()) {
		name = t.Session
	} else if a, err := s.Verifier.Issued(f["token"]); err == nil {
		name = a.Session
	} else if _, err := s.Verifier.Identity(f["token"]); err == nil {
		return nil, refuse("unsupported_token_type", "An ID token can't be revoked: it says who logged in, and opens nothing.")
	}
	if name == "" {
		return emptyResponse{}, nil
	}
	sess, _, err := s.Sessions.Find(r.Context(), name)
	if err != nil { // over already, or not to be told
		return emptyResponse{}, undecided(err)
	}
	if sess.Client != c.Name {
		return nil, refuse(invalidGrant, "The token was issued to another client.")
	}
	if err := s.Sessions.End(r.Context(), name, "revoked"); err != nil {
		return nil, err
	}
	return emptyResponse{}, nil
}
