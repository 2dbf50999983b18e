package grant

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/token"
)

// How long codes are good by default and at most (RFC 6749, 4.1.2).
const (
	DefaultCodeLife = time.Minute
	MaxCodeLife     = 10 * time.Minute
)

// PurposeCode is the purpose that codes are sealed for.
const PurposeCode token.Purpose = "code"

// Code is the content of an authorization code, which is sealed, so that nothing is stored. It has the name of the session that it
// opens, so that on all replicas at most one session is opened.
type Code struct {
	Session     string    `json:"i"` // the name of the session to open
	Client      string    `json:"c"`
	RedirectURI string    `json:"r"`
	Given       bool      `json:"g,omitempty"` // the request had a redirect_uri
	Challenge   string    `json:"p,omitempty"`
	Nonce       string    `json:"n,omitempty"`
	Scopes      []string  `json:"o,omitempty"`
	Browser     string    `json:"b"` // the session of the browser, or of the console
	Subject     string    `json:"u"` // the UID of the User
	At          time.Time `json:"t"` // when and how the user authenticated
	Methods     []string  `json:"m,omitempty"`
	Expires     time.Time `json:"e"`
}

// authorizationCode is the grant of that name (RFC 6749, 4.1.3). Everything else is checked before the session is opened, which uses
// the code up.
func (e *Endpoint) authorizationCode(r *http.Request, c *client.Client, f protocol.Form) (*Response, error) {
	if f["code"] == "" {
		return nil, protocol.Refuse(protocol.InvalidRequest, "The code is missing.")
	}
	var k Code
	if err := e.Sealer.Open(PurposeCode, f["code"], &k); err != nil {
		return nil, protocol.Refuse(protocol.InvalidGrant, "The code is not valid.").Because(err)
	}
	switch {
	case k.Client != c.Name:
		return nil, protocol.Refuse(protocol.InvalidGrant, "The code was issued to another client.")
	case !e.Now().Before(k.Expires):
		return nil, protocol.Refuse(protocol.InvalidGrant, "The code has expired.")
	case k.Given && f["redirect_uri"] == "", f["redirect_uri"] != "" && f["redirect_uri"] != k.RedirectURI:
		return nil, protocol.Refuse(protocol.InvalidGrant, "The redirect_uri is not that of the authorization request.")
	}
	if err := verifyChallenge(k.Challenge, f["code_verifier"], c.Secret == ""); err != nil {
		return nil, err
	}
	b, u, err := e.Sessions.Find(r.Context(), k.Browser)
	if errors.Is(err, iam.ErrUnavailable) {
		return nil, err
	}
	if err != nil || !browser.CanOpen(b, e.Clients.Trusted) || u == nil || u.UID != k.Subject {
		return nil, protocol.Refuse(protocol.InvalidGrant, "The user has logged out in the meantime.").Because(err)
	}
	audit.From(r.Context()).SetUser(u.Name, u.UID)
	sess, refresh, err := e.Sessions.Open(r.Context(), session.Login{
		AuthnResult: iam.AuthnResult{User: u, Provider: b.Provider, Groups: b.Groups, Methods: k.Methods, At: k.At},
		Origin:      e.OriginOf(r), Name: k.Session, Client: c.Name, Parent: k.Browser, Scopes: k.Scopes,
	})
	switch {
	case errors.Is(err, iam.ErrUsed):
		return nil, protocol.Refuse(protocol.InvalidGrant, "The code was used before.").Because(err)
	case errors.Is(err, iam.ErrOver):
		return nil, protocol.Refuse(protocol.InvalidGrant, "The user has logged out in the meantime.").Because(err)
	}
	if err != nil {
		return nil, err
	}
	return e.Issuer.Issue(c, &Session{Session: sess, User: u, Scopes: k.Scopes, Refresh: refresh, Nonce: k.Nonce})
}

// The lengths of a verifier (RFC 7636, 4.1).
const minVerifier, maxVerifier = 43, 128

// verifyChallenge returns an error unless the verifier is that of the challenge (RFC 7636, 4.6). A verifier without a challenge is
// refused, since an attacker may have removed the challenge (RFC 9700, 4.8.2).
func verifyChallenge(challenge, verifier string, public bool) error {
	switch {
	case challenge == "" && (verifier != "" || public):
		return protocol.Refuse(protocol.InvalidGrant, "There was no code_challenge in the authorization request.")
	case challenge == "":
		return nil
	case verifier == "":
		return protocol.Refuse(protocol.InvalidGrant, "The code_verifier is missing.")
	case len(verifier) < minVerifier || len(verifier) > maxVerifier || strings.Trim(verifier, unreserved) != "":
		return protocol.Refuse(protocol.InvalidRequest, "The code_verifier is not of 43 to 128 unreserved characters.")
	}
	sum := sha256.Sum256([]byte(verifier))
	if subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) != 1 {
		return protocol.Refuse(protocol.InvalidGrant, "The code_verifier is not the one of the code_challenge.")
	}
	return nil
}

const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
