package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// maxCode bounds a code or a ticket that a browser brings.
const maxCode = 8 << 10

// Style is how a client authenticates at a token endpoint (RFC 6749, 2.3.1).
type Style int32

// The styles. StyleUnknown tries Basic, which servers have to support, and then the form.
const (
	StyleUnknown Style = iota
	StyleBasic
	StyleForm
)

// Grant is the authorization code grant (RFC 6749, 4.1) with PKCE (RFC 7636), and the refresh grant, of one client.
type Grant struct {
	Client *Client
	// ID and Secret are the registered ones. A public client has no secret.
	ID     string
	Secret idp.Secret

	learned atomic.Int32 // the Style that the server accepted
}

// Request describes an authorization request.
type Request struct {
	// AuthURL is the authorization endpoint.
	AuthURL string
	// Callback replaces the login's redirect URI; "" for no replacement.
	Callback string
	Scopes   []string
	// PKCE and Nonce say which of these are sent.
	PKCE, Nonce bool
	// Extra are further parameters.
	Extra url.Values
}

// Begin returns where to send the browser.
func (g *Grant) Begin(r Request, b idp.Begin) (string, error) {
	q := url.Values{"response_type": {"code"}, "client_id": {g.ID}, "redirect_uri": {or(r.Callback, b.Callback)}, "state": {b.State}}
	if len(r.Scopes) > 0 {
		q.Set("scope", strings.Join(r.Scopes, " "))
	}
	if r.PKCE {
		sum := sha256.Sum256([]byte(b.Verifier))
		q.Set("code_challenge", base64.RawURLEncoding.EncodeToString(sum[:]))
		q.Set("code_challenge_method", "S256")
	}
	if r.Nonce {
		q.Set("nonce", b.Nonce)
	}
	for k, v := range r.Extra {
		q[k] = v
	}
	return Extend(r.AuthURL, q)
}

// Code returns the parameter of that name ("code", or "ticket") with which the browser returned. Its error is idp.ErrRefused.
func Code(values url.Values, name string) (string, error) {
	if e := values.Get("error"); e != "" {
		return "", fmt.Errorf("%w: it answers %s", idp.ErrRefused, known(e))
	}
	all := values[name]
	switch {
	case len(all) == 0 || all[0] == "":
		return "", fmt.Errorf("%w: the browser came back without a %s", idp.ErrRefused, name)
	case len(all) > 1:
		return "", fmt.Errorf("%w: the browser came back with more than one %s", idp.ErrRefused, name)
	case len(all[0]) > maxCode || strings.ContainsFunc(all[0], unsendable):
		return "", fmt.Errorf("%w: the browser came back with what can be no %s", idp.ErrRefused, name)
	}
	return all[0], nil
}

// unsendable reports whether a character can't be in a code: codes are printable ASCII (RFC 6749, A.11).
func unsendable(r rune) bool { return r < ' ' || r > '~' }

// Tokens are the tokens that a server issues for a code or a refresh token. They are secrets.
type Tokens struct {
	Access  string `json:"access_token"`
	ID      string `json:"id_token"`
	Refresh string `json:"refresh_token"`
}

// Redeem exchanges a code for tokens. Its errors are idp.ErrRefused and idp.ErrUnavailable.
func (g *Grant) Redeem(ctx context.Context, tokenURL, code, callback, verifier string, s Style) (*Tokens, error) {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback}}
	if verifier != "" {
		form.Set("code_verifier", verifier)
	}
	t, failed, err := g.ask(ctx, tokenURL, form, s)
	if err != nil {
		return nil, err
	}
	if failed != "" {
		return nil, refusal(failed, "redeem the code", idp.ErrRefused)
	}
	return t, nil
}

// Renew exchanges a refresh token for tokens, and keeps the refresh token if the server issues no other. Its errors are idp.ErrGone, if
// the server no longer knows the token, and idp.ErrUnavailable.
func (g *Grant) Renew(ctx context.Context, tokenURL, refresh string, s Style) (*Tokens, error) {
	t, failed, err := g.ask(ctx, tokenURL, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}}, s)
	if err != nil {
		return nil, err
	}
	switch failed {
	case "":
	case "invalid_grant", "bad_refresh_token":
		return nil, fmt.Errorf("%w: it takes the refresh token no more", idp.ErrGone)
	default:
		return nil, refusal(failed, "ask again about the person", idp.ErrUnavailable)
	}
	if t.Refresh == "" {
		t.Refresh = refresh
	}
	return t, nil
}

// Probe requests tokens with an invalid code: a server that knows the client refuses the code, and not the client.
func (g *Grant) Probe(ctx context.Context, tokenURL, callback string, s Style) error {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {"check"}, "redirect_uri": {or(callback, "https://check.invalid/")},
		"code_verifier": {strings.Repeat("check", 9)}}
	_, failed, err := g.ask(ctx, tokenURL, form, s)
	if err == nil && clientFault[failed] {
		err = refusal(failed, "ask with clientID and clientSecret", idp.ErrRefused)
	}
	return err
}

// clientFault has the errors for an unknown client or a wrong secret: RFC 6749, 5.2, and GitHub's.
var clientFault = map[string]bool{"invalid_client": true, "unauthorized_client": true, "incorrect_client_credentials": true}

// refusal returns the error for an error of a token endpoint: errors about the client are for the administrator.
func refusal(failed, what string, otherwise error) error {
	if clientFault[failed] {
		return fmt.Errorf("%w: %w: %s: it answers %s", idp.ErrUnavailable, ErrSettings, what, known(failed))
	}
	return fmt.Errorf("%w: %s: it answers %s", otherwise, what, known(failed))
}

// ask sends a form to a token endpoint. It returns tokens, or the error code.
func (g *Grant) ask(ctx context.Context, tokenURL string, form url.Values, s Style) (*Tokens, string, error) {
	unknown := s == StyleUnknown
	if unknown {
		if s = Style(g.learned.Load()); s != StyleUnknown {
			unknown = false
		} else if s = StyleBasic; g.Secret.IsZero() {
			unknown = false
		}
	}
	t, failed, err := g.post(ctx, tokenURL, form, s)
	if unknown && failed == "invalid_client" { // the code was not checked: the client is authenticated first (RFC 6749, 3.2.1)
		if t, failed, err = g.post(ctx, tokenURL, form, StyleForm); err == nil && failed != "invalid_client" {
			g.learned.Store(int32(StyleForm))
		}
	}
	return t, failed, err
}

func (g *Grant) post(ctx context.Context, tokenURL string, form url.Values, s Style) (*Tokens, string, error) {
	body := url.Values{}
	for k, v := range form {
		body[k] = v
	}
	if s == StyleForm || g.Secret.IsZero() {
		body.Set("client_id", g.ID)
		if !g.Secret.IsZero() {
			body.Set("client_secret", g.Secret.Reveal())
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, tokenURL, strings.NewReader(body.Encode()))
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w: its tokenURL is not valid", idp.ErrUnavailable, ErrSettings)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if s != StyleForm && !g.Secret.IsZero() {
		req.SetBasicAuth(url.QueryEscape(g.ID), url.QueryEscape(g.Secret.Reveal()))
	}
	a, err := g.Client.do(req)
	if err != nil {
		return nil, "", err
	}
	return a.tokens()
}

// tokens decodes the answer of a token endpoint (RFC 6749, 5). GitHub's errors have status 200.
func (a *Answer) tokens() (*Tokens, string, error) {
	var answer struct {
		Tokens
		Error string `json:"error"`
	}
	readable := json.Unmarshal(a.Body, &answer) == nil
	switch {
	case a.Status == http.StatusUnauthorized && (!readable || known(answer.Error) != answer.Error): // RFC 6749, 5.2
		return nil, "invalid_client", nil
	case readable && answer.Error != "":
		return nil, answer.Error, nil
	case a.Status != http.StatusOK && a.Status != http.StatusCreated:
		return nil, "", a.Unexpected()
	case !readable || answer.Access == "" || len(answer.Access) > maxCode*4 || strings.ContainsFunc(answer.Access, unsendable):
		return nil, "", a.Unreadable("tokens")
	}
	return &answer.Tokens, "", nil
}

// known returns an error code if it is one of the documented ones, since others may contain anything.
func known(code string) string {
	switch code {
	case "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
		// RFC 6749, 5.2
		"access_denied", "unsupported_response_type", "server_error", "temporarily_unavailable", // 4.1.2.1
		"interaction_required", "login_required", "account_selection_required", "consent_required", // OpenID Connect Core 1.0, 3.1.2.6
		"bad_verification_code", "incorrect_client_credentials", "redirect_uri_mismatch", "bad_refresh_token", "application_suspended": // GitHub
		return code
	}
	return "with an error of its own"
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
