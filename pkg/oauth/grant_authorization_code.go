package oauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/token"
)

// DefaultCodeLife is how long a code is good, and MaxCodeLife the most that may be set (RFC 6749, 4.1.2).
const (
	DefaultCodeLife = time.Minute
	MaxCodeLife     = 10 * time.Minute
)

const purposeCode token.Purpose = "code"

// code is what an authorization code is made of. Nothing is stored for it: it is sealed, and the session that it opens has a
// name that stands in it, so that there is one such session at most, over all replicas.
type code struct {
	Session     string    `json:"i"` // the name of the session to open
	Client      string    `json:"c"`
	RedirectURI string    `json:"r"`
	Given       bool      `json:"g,omitempty"` // the request had a redirect_uri
	Challenge   string    `json:"p,omitempty"`
	Nonce       string    `json:"n,omitempty"`
	Scopes      []string  `json:"o,omitempty"`
	Browser     string    `json:"b"` // the browser's session
	Subject     string    `json:"u"` // the UID of the User
	At          time.Time `json:"t"` // when he proved himself, and by what
	Methods     []string  `json:"m,omitempty"`
	Expires     time.Time `json:"e"`
}

// newCode makes a code for the person of a browser.
func (s *Server) newCode(b *browser, a *authorization) (string, error) {
	now := s.Now()
	return s.seal(purposeCode, &code{
		Session: s.Sessions.NewName(), Client: a.Client, RedirectURI: a.RedirectURI, Given: a.RedirectGiven, Challenge: a.Challenge, Nonce: a.Nonce,
		Scopes: a.Scopes, Browser: b.session.Name, Subject: b.user.UID,
		At: b.session.Authenticated, Methods: b.session.Methods, Expires: now.Add(s.CodeLife),
	})
}

// seal makes a value that only servers with our keys can read.
func (s *Server) seal(p token.Purpose, v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("seal a value: %w", err)
	}
	return s.Keys.KeySet().Seal(p, b, s.Now())
}

// open reads what seal has made.
func (s *Server) open(p token.Purpose, sealed string, v any) error {
	b, err := s.Keys.KeySet().Open(p, sealed, s.Now())
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", token.ErrSealed, err)
	}
	return nil
}

// authorizationCode is the grant of that name (RFC 6749, 4.1.3). All that can be judged is judged before the session is
// opened, since that uses the code up.
func (s *Server) authorizationCode(r *http.Request, c *Client, f form) (*tokens, error) {
	if f["code"] == "" {
		return nil, refuse(invalidRequest, "The code is missing.")
	}
	var k code
	if err := s.open(purposeCode, f["code"], &k); err != nil {
		return nil, refuse(invalidGrant, "The code is not valid.").because(err)
	}
	switch {
	case k.Client != c.Name:
		return nil, refuse(invalidGrant, "The code was issued to another client.")
	case !s.Now().Before(k.Expires):
		return nil, refuse(invalidGrant, "The code has expired.")
	case k.Given && f["redirect_uri"] == "", f["redirect_uri"] != "" && f["redirect_uri"] != k.RedirectURI:
		return nil, refuse(invalidGrant, "The redirect_uri is not that of the authorization request.")
	}
	if err := verifyChallenge(k.Challenge, f["code_verifier"], c.Secret == ""); err != nil {
		return nil, err
	}
	b, u, err := s.Sessions.Find(r.Context(), k.Browser)
	if errors.Is(err, iam.ErrUnavailable) {
		return nil, err
	}
	if err != nil || b.Client != "" || u == nil || u.UID != k.Subject {
		return nil, refuse(invalidGrant, "The person has logged out in the meantime.").because(err)
	}
	sess, refresh, err := s.Sessions.Open(r.Context(), session.Login{
		AuthnResult: iam.AuthnResult{User: u, Provider: b.Provider, Groups: b.Groups, Methods: k.Methods, At: k.At},
		Origin:      s.originOf(r), Name: k.Session, Client: c.Name, Parent: k.Browser, Scopes: k.Scopes,
	})
	switch {
	case errors.Is(err, iam.ErrUsed):
		return nil, refuse(invalidGrant, "The code was used before.").because(err)
	case errors.Is(err, iam.ErrOver):
		return nil, refuse(invalidGrant, "The person has logged out in the meantime.").because(err)
	}
	if err != nil {
		return nil, err
	}
	return s.issue(c, &issued{session: sess, user: u, scopes: k.Scopes, refresh: refresh, nonce: k.Nonce})
}

// The lengths of a verifier (RFC 7636, 4.1).
const minVerifier, maxVerifier = 43, 128

// verifyChallenge compares the verifier with the challenge (RFC 7636, 4.6). A verifier without a challenge is refused: somebody has
// cut the challenge out of the request (RFC 9700, 4.8.2).
func verifyChallenge(challenge, verifier string, public bool) error {
	switch {
	case challenge == "" && (verifier != "" || public):
		return refuse(invalidGrant, "There was no code_challenge in the authorization request.")
	case challenge == "":
		return nil
	case verifier == "":
		return refuse(invalidGrant, "The code_verifier is missing.")
	case len(verifier) < minVerifier || len(verifier) > maxVerifier || strings.Trim(verifier, unreserved) != "":
		return refuse(invalidRequest, "The code_verifier is not of 43 to 128 unreserved characters.")
	}
	sum := sha256.Sum256([]byte(verifier))
	if subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) != 1 {
		return refuse(invalidGrant, "The code_verifier is not the one of the code_challenge.")
	}
	return nil
}

const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
