package device

import (
	"errors"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/grant"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// Grant returns the device grant (RFC 8628, 3.4).
func (h *Handler) Grant() grant.Grant {
	return grant.Grant{Name: "urn:ietf:params:oauth:grant-type:device_code", Do: h.claim}
}

// claim returns the tokens of a device that the user approved.
func (h *Handler) claim(r *http.Request, c *client.Client, f protocol.Form) (*grant.Response, error) {
	if f["device_code"] == "" {
		return nil, protocol.Refuse(protocol.InvalidRequest, "The device_code is missing.")
	}
	var d request
	if err := h.Sealer.Open(purposeDevice, f["device_code"], &d); err != nil {
		return nil, protocol.Refuse(protocol.InvalidGrant, "The device_code is not valid.").Because(err)
	}
	if d.Client != c.Name {
		return nil, protocol.Refuse(protocol.InvalidGrant, "The device_code was issued to another client.")
	}
	if !h.Now().Before(d.Expires) {
		return nil, protocol.Refuse("expired_token", "The device_code has expired; start again.")
	}
	name := deviceSession(d.UserCode)
	if h.polls.early(name, h.Now()) {
		return nil, protocol.Refuse(protocol.SlowDown, "The device asks too often.")
	}
	sess, u, refresh, err := h.Sessions.Claim(r.Context(), name, c.Name, d.Scopes...)
	switch {
	case errors.Is(err, iam.ErrWaiting):
		return nil, protocol.Refuse("authorization_pending", "Nobody has let the device in yet.")
	case errors.Is(err, iam.ErrDenied):
		return nil, protocol.Refuse(protocol.AccessDenied, "The user denied the request.")
	case errors.Is(err, iam.ErrUsed), errors.Is(err, iam.ErrOver):
		return nil, protocol.Refuse(protocol.InvalidGrant, "The device_code was used before, or the login is over.").Because(err)
	case err != nil:
		return nil, err
	}
	audit.From(r.Context()).SetUser(sess.User, sess.UserUID)
	return h.Tokens.Issue(c, &grant.Session{Session: sess, User: u, Scopes: sess.Scopes, Refresh: refresh})
}
