package oauth

import (
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// secretMethods are the ways in which a client proves who it is, by their registered names (OpenID Connect Core 1.0, 9), and
// authMethods those in which it says who it is: a client without a secret has nothing to prove it with.
func secretMethods() []string { return []string{"client_secret_basic", "client_secret_post"} }

func authMethods() []string { return append(secretMethods(), "none") }

// basicChallenge is what RFC 9110, 11.6.1 has every 401 carry.
const basicChallenge = `Basic realm="oauth", charset="UTF-8"`

// authenticateClient returns the client that a request of the token endpoint comes from (RFC 6749,
// 2.3): by HTTP Basic, or by parameters of the form, and never by both.
//
// A flood of wrong secrets from one address is answered with 429. A right one is never refused for that: the whole console may ask from
// one address, and whoever reaches it could have everybody's logins and refreshes refused.
func (s *Server) authenticateClient(r *http.Request, f form) (*Client, error) {
	name, secret, basic, err := credentials(r, f)
	if err != nil {
		return nil, err
	}
	c := s.Clients.Client(name)
	if c == nil {
		return nil, clientError(basic, http.StatusBadRequest, invalidClient, "The provided client_id is invalid or does not exist.")
	}
	if c.Secret == "" && secret == "" && !basic {
		return c, nil // public: it can only say who it is
	}
	if secret == "" { // no guess (RFC 6749, 5.2: no client authentication included)
		return nil, clientError(basic, http.StatusUnauthorized, invalidClient, "The client_secret is missing.")
	}
	if c.Secret.matches(secret) {
		return c, nil
	}
	key := limitKey{guessedSecret, name, s.originOf(r).Source} // as the trusted proxies say it: many people share one, and its address
	if s.limit.exhausted(key, s.Now()) {
		return nil, &Error{Code: http.StatusTooManyRequests, Name: slowDown, RetryAfter: limitPause,
			Description: "Too many failed attempts of this client; try again in a moment."}
	}
	s.limit.failed(key, s.Now())
	return nil, clientError(basic, http.StatusUnauthorized, unauthorized, "The client is not authorized.")
}

// credentials returns what a client says of itself. A bearer token sent along is none of that: the
// console sends its refresh token there too.
func credentials(r *http.Request, f form) (name, secret string, basic bool, err error) {
	values := r.Header["Authorization"]
	if len(values) > 1 {
		return "", "", false, refuse(invalidRequest, "There are several Authorization headers.")
	}
	if len(values) == 1 {
		scheme, encoded, _ := strings.Cut(values[0], " ")
		if strings.EqualFold(scheme, "Basic") {
			if name, secret, err = decodeBasic(encoded); err != nil {
				return "", "", true, err
			}
			if f["client_secret"] != "" || (f["client_id"] != "" && f["client_id"] != name) {
				return "", "", true, refuse(invalidRequest, "A client authenticates in one way: by HTTP Basic, or by the form.")
			}
			return name, secret, true, nil
		}
	}
	if f["client_id"] == "" {
		return "", "", false, refuse(invalidClient, "The client_id is missing.")
	}
	return f["client_id"], f["client_secret"], false, nil
}

// decodeBasic undoes the form encoding of both parts (RFC 6749, 2.3.1).
func decodeBasic(encoded string) (name, secret string, err error) {
	bad := clientError(true, http.StatusUnauthorized, invalidClient, "The Authorization header is not well-formed.")
	if len(encoded) > maxBody {
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

// clientError is the refusal of a client. To one that used the Authorization header it is always
// invalid_client, 401 and a challenge (RFC 6749, 5.2).
func clientError(basic bool, code int, name, description string) *Error {
	if basic {
		code, name = http.StatusUnauthorized, invalidClient
	}
	e := &Error{Code: code, Name: name, Description: description}
	if code == http.StatusUnauthorized {
		e.Challenge = basicChallenge
	}
	return e
}

func host(r *http.Request) string {
	h, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return h
}
