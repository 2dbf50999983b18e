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

// Style is how a client proves itself at a token endpoint (RFC 6749, 2.3.1).
type Style int32

// The styles. StyleUnknown tries Basic, which servers have to have, and then the form.
const (
	StyleUnknown Style = iota
	StyleBasic
	StyleForm
)

// Grant is the authorization code grant (RFC 6749, 4.1) with PKCE (RFC 7636), and the refresh grant, of one client.
type Grant struct {
	Client *Client
	// ID and Secret are what the client is registered with. A public client has no secret.
	ID     string
	Secret idp.Secret

	learned atomic.Int32 // the Style that the server took
}

// Request is where a login is sent.
type Request struct {
	// AuthURL is the authorization endpoint.
	AuthURL string
	// Callback replaces that of the login; "" for it.
	Callback string
	Scopes   []string
	// PKCE and Nonce say what the server is given of these.
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

// Code returns what the browser came back with under that name ("code", or "ticket"). Its error is idp.ErrRefused.
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

// unsendable tells what codes do not have: they are printable ASCII (RFC 6749, A.11).
func unsendable(r rune) bool { return r < ' ' || r > '~' }

// Tokens are what a server gives for a code or a refresh token. They are secrets.
type Tokens struct {
	Access  string `json:"access_token"`
	ID      string `json:"id_token"`
	Refresh string `json:"refresh_token"`
}

// Redeem gives a code for tokens. Its errors are idp.ErrRefused and idp.ErrUnavailable.
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

// Renew gives a refresh token for tokens; its own where there is no other. Its errors are idp.ErrGone, where the server knows the token no
// more, and idp.ErrUnavailable.
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

// Probe asks for tokens with a code that can't be one: a server that knows the client refuses the code, and not the client.
func (g *Grant) Probe(ctx context.Context, tokenURL, callback string, s Style) error {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {"check"}, "redirect_uri": {or(callback, "https://check.invalid/")},
		"code_verifier": {strings.Repeat("check", 9)}}
	_, failed, err := g.ask(ctx, tokenURL, form, s)
	if err == nil && clientFault[failed] {
		err = refusal(failed, "ask with clientID and clientSecret", idp.ErrRefused)
	}
	return err
}

// clientFault are the errors that say that the client is unknown, or has another secret: RFC 6749, 5.2, and GitHub's.
var clientFault = map[string]bool{"invalid_client": true, "unauthorized_client": true, "incorrect_client_credentials": true}

// refusal is the error for a token endpoint's error: those about the client are for the administrator.
func refusal(failed, what string, otherwise error) error {
	if clientFault[failed] {
		return fmt.Errorf("%w: %w: %s: it answers %s", idp.ErrUnavailable, ErrSettings, what, known(failed))
	}
	return fmt.Errorf("%w: %s: it answers %s", otherwise, what, known(failed))
}

// ask posts a form to a token endpoint. It returns tokens, or the code of an error.
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
	if unknown && failed == "invalid_client" { // the code was not looked at: the client goes first (RFC 6749, 3.2.1)
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

// tokens reads the answer of a token endpoint (RFC 6749, 5). GitHub's errors come with the status 200.
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

// known returns an error code that is one of those that are written somewhere, since others may hold anything.
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
