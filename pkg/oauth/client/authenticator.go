package client

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/oauth/ratelimit"
)

// SecretMethods returns the authentication methods that need a secret, by their registered names (OpenID Connect Core 1.0, 9).
func SecretMethods() []string { return []string{"client_secret_basic", "client_secret_post"} }

// AuthMethods returns all authentication methods: those of clients with a secret, and none for public clients.
func AuthMethods() []string { return append(SecretMethods(), "none") }

// Authenticator authenticates clients at the endpoints that clients call.
type Authenticator struct {
	Registry *Registry
	// Loaded returns why clients may be registered that are not known yet, or with other secrets, as an iam.ErrUnavailable; nil for never.
	Loaded func() error
	// Limit limits wrong secrets.
	Limit *ratelimit.Limiter
	// OriginOf returns where a request comes from.
	OriginOf func(*http.Request) iam.Origin
	Now      func() time.Time
}

// basicChallenge is the WWW-Authenticate header of each 401 (RFC 9110, 11.6.1).
const basicChallenge = `Basic realm="oauth", charset="UTF-8"`

// Authenticate returns the client that a request comes from (RFC 6749, 2.3): by HTTP Basic, or by parameters of the form,
// never by both.
//
// Many wrong secrets from one address are answered with 429. A right secret is never refused for that: all users of the
// console share its address, so an attacker could block their logins and refreshes.
func (a *Authenticator) Authenticate(r *http.Request, f protocol.Form) (*Client, error) {
	name, secret, basic, err := credentials(r, f)
	if err != nil {
		return nil, err
	}
	if a.Loaded != nil {
		if err := a.Loaded(); err != nil {
			return nil, err
		}
	}
	c := a.Registry.Client(name)
	if c == nil {
		return nil, AuthError(basic, http.StatusBadRequest, protocol.InvalidClient, "The provided client_id is invalid or does not exist.")
	}
	if c.Secret == "" && secret == "" && !basic {
		return c, nil // a public client only identifies itself
	}
	if secret == "" { // not counted as a guess (RFC 6749, 5.2: no client authentication included)
		return nil, AuthError(basic, http.StatusUnauthorized, protocol.InvalidClient, "The client_secret is missing.")
	}
	if c.Secret.Matches(secret) {
		return c, nil
	}
	// The source is that of trusted proxies' headers, since many users share the address of a proxy.
	key := ratelimit.Key{Kind: ratelimit.ClientSecret, Name: name, Source: a.OriginOf(r).Source}
	if a.Limit.Exhausted(key, a.Now()) {
		return nil, &protocol.Error{Code: http.StatusTooManyRequests, Name: protocol.SlowDown, RetryAfter: ratelimit.Pause,
			Description: "Too many failed attempts of this client; try again in a moment."}
	}
	a.Limit.Failed(key, a.Now())
	return nil, AuthError(basic, http.StatusUnauthorized, protocol.UnauthorizedClient, "The client is not authorized.")
}

// credentials returns the client_id and client_secret of a request. A bearer token in the Authorization header is ignored: the
// console sends its refresh token there.
func credentials(r *http.Request, f protocol.Form) (name, secret string, basic bool, err error) {
	values := r.Header["Authorization"]
	if len(values) > 1 {
		return "", "", false, protocol.Refuse(protocol.InvalidRequest, "There are several Authorization headers.")
	}
	if len(values) == 1 {
		scheme, encoded, _ := strings.Cut(values[0], " ")
		if strings.EqualFold(scheme, "Basic") {
			if name, secret, err = decodeBasic(encoded); err != nil {
				return "", "", true, err
			}
			if f["client_secret"] != "" || (f["client_id"] != "" && f["client_id"] != name) {
				return "", "", true, protocol.Refuse(protocol.InvalidRequest, "A client authenticates in one way: by HTTP Basic, or by the form.")
			}
			return name, secret, true, nil
		}
	}
	if f["client_id"] == "" {
		return "", "", false, protocol.Refuse(protocol.InvalidClient, "The client_id is missing.")
	}
	return f["client_id"], f["client_secret"], false, nil
}

// decodeBasic decodes a Basic header, whose parts are form-encoded (RFC 6749, 2.3.1).
func decodeBasic(encoded string) (name, secret string, err error) {
	bad := AuthError(true, http.StatusUnauthorized, protocol.InvalidClient, "The Authorization header is not well-formed.")
	if len(encoded) > protocol.MaxBody {
		return "", "", bad
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil {
		return "", "", bad
	}
	name, secret, ok := strings.Cut(string(b), ":")
	if !ok {
		return "", "", bad
	}
	if name, err = url.QueryUnescape(name); err != nil {
		return "", "", bad
	}
	if secret, err = url.QueryUnescape(secret); err != nil {
		return "", "", bad
	}
	return name, secret, nil
}

// AuthError returns the error for a failed client authentication. If the client used the Authorization header, it is
// invalid_client with 401 and a challenge (RFC 6749, 5.2).
func AuthError(basic bool, code int, name, description string) *protocol.Error {
	if basic {
		code, name = http.StatusUnauthorized, protocol.InvalidClient
	}
	e := &protocol.Error{Code: code, Name: name, Description: description}
	if code == http.StatusUnauthorized {
		e.Challenge = basicChallenge
	}
	return e
}

// Matches compares secrets in constant time. An empty secret matches nothing.
func (s Secret) Matches(given string) bool {
	a, b := sha256.Sum256([]byte(s)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && s != ""
}
