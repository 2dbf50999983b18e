// Package bearer finds the bearer token of a request (RFC 6750) and has it verified: here, if it is an access token or an API key of this
// server, and by other authenticators otherwise.
package bearer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"kapis.dev/ks-apiserver/pkg/request"
)

// MaxHeader is the longest Authorization header, in bytes, that is read.
const MaxHeader = 16 << 10

// cookieName is the cookie in which the console stores its access token.
const cookieName = "token"

// Errors say why credentials are refused before the token is verified; they have no part of it.
var (
	errTooLong  = errors.New("the Authorization header is too long")
	errSeveral  = errors.New("there are several Authorization headers")
	errScheme   = errors.New("the Authorization header is not of the scheme Bearer")
	errNotToken = errors.New("the Authorization header has no well-formed bearer token")
	errNobody   = errors.New("no authority of this server knows the bearer token")
)

// Authenticator has the bearer token of a request verified by several authenticators, each for its own kind of token.
type Authenticator struct {
	// Prefixed are asked first, each about tokens with its prefix alone.
	Prefixed []Prefixed
	// Tokens are asked in order. Each accepts the token, or says that it is of another kind, or why it is not valid.
	Tokens []authenticator.Token
	// Origins are the pages whose WebSockets may use the cookie instead of the header, besides those of the address that the request itself
	// names.
	Origins request.Origins
}

// Prefixed is an authenticator of tokens that a prefix identifies. It has to refuse those of other kinds nevertheless.
type Prefixed struct {
	Prefix string
	Token  authenticator.Token
}

var (
	_ authenticator.Request = (*Authenticator)(nil)
	_ authenticator.Token   = (*APIKeys)(nil)
	_ authenticator.Token   = (*AccessTokens)(nil)
)

// AuthenticateRequest verifies the token, whether it comes in the header or in the cookie. A request without a token is neither accepted
// nor refused.
func (a *Authenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	token, found, err := FromHeader(r.Header)
	if err != nil {
		return nil, false, err
	}
	if !found {
		if token, found, err = a.fromCookie(r); err != nil || !found {
			return nil, false, err
		}
	}
	return a.AuthenticateToken(r.Context(), token)
}

// AuthenticateToken asks each that could know the token in turn, and fails if none does. A token that one has refused may be another's: so
// an error that says "not now" counts, whatever the others say.
func (a *Authenticator) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	var errs []error
	for i := range a.Prefixed {
		if p := &a.Prefixed[i]; strings.HasPrefix(token, p.Prefix) {
			if resp, ok := ask(ctx, p.Token, token, &errs); ok {
				return resp, true, nil
			}
		}
	}
	for _, t := range a.Tokens {
		if resp, ok := ask(ctx, t, token, &errs); ok {
			return resp, true, nil
		}
	}
	if len(errs) == 0 {
		return nil, false, errNobody
	}
	return nil, false, fmt.Errorf("bearer token: %w", errors.Join(errs...))
}

// ask returns what one of several authenticators says of a token, and appends its error to errs.
func ask(ctx context.Context, t authenticator.Token, token string, errs *[]error) (*authenticator.Response, bool) {
	resp, ok, err := t.AuthenticateToken(ctx, token)
	if err != nil {
		*errs = append(*errs, err)
	}
	return resp, ok && err == nil
}

// FromHeader returns the bearer token of the Authorization header. It distinguishes a missing header from a wrong one, and copies
// nothing.
func FromHeader(h http.Header) (token string, found bool, err error) {
	values, sent := h["Authorization"]
	switch {
	case !sent:
		return "", false, nil
	case len(values) != 1:
		return "", false, errSeveral
	case len(values[0]) > MaxHeader:
		return "", false, errTooLong
	}
	scheme, rest, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false, errScheme
	}
	if !wellFormed(rest) {
		return "", false, errNotToken
	}
	return rest, true, nil
}

// wellFormed reports whether s is a b64token (RFC 6750, 2.1).
func wellFormed(s string) bool {
	body := strings.TrimRight(s, "=")
	if body == "" {
		return false
	}
	bad := byte(0)
	for len(body) >= 8 { // eight at a time, since a token may have a thousand
		bad |= foreign[body[0]] | foreign[body[1]] | foreign[body[2]] | foreign[body[3]] |
			foreign[body[4]] | foreign[body[5]] | foreign[body[6]] | foreign[body[7]]
		body = body[8:]
	}
	for i := range len(body) {
		bad |= foreign[body[i]]
	}
	return bad == 0
}

// foreign is 1 for each byte that a b64token can't have.
var foreign = func() (table [256]byte) {
	for c := range table {
		if !strings.ContainsRune("-._~+/0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", rune(c)) {
			table[c] = 1
		}
	}
	return table
}()

// fromCookie returns the console's cookie where it may replace the header: on a WebSocket, to which a page can't add a header, and only
// for our own pages. Any page can open a WebSocket to this server, and the browser adds the cookie; it is ignored for a foreign page, or
// for none.
func (a *Authenticator) fromCookie(r *http.Request) (string, bool, error) {
	if !isWebSocket(r) || !a.Origins.Match(r) {
		return "", false, nil
	}
	size := 0
	for _, c := range r.Header["Cookie"] {
		size += len(c)
	}
	if size > MaxHeader {
		return "", false, errTooLong
	}
	cookies := r.CookiesNamed(cookieName)
	switch {
	case len(cookies) == 0 || cookies[0].Value == "":
		return "", false, nil
	case len(cookies) > 1:
		return "", false, errSeveral
	case !wellFormed(cookies[0].Value):
		return "", false, errNotToken
	}
	return cookies[0].Value, true, nil
}

func isWebSocket(r *http.Request) bool {
	return r.Method == http.MethodGet &&
		httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade") &&
		httpguts.HeaderValuesContainsToken(r.Header["Upgrade"], "websocket")
}
