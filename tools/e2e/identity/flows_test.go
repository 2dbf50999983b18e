package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// tokens is a good answer of the token endpoint.
type tokens struct {
	Access    string `json:"access_token"`
	Refresh   string `json:"refresh_token"`
	ID        string `json:"id_token"`
	Type      string `json:"token_type"`
	Scope     string `json:"scope"`
	ExpiresIn int    `json:"expires_in"`
}

// tokens returns the tokens of an answer, which has to be good.
func (a answer) tokens(t *testing.T) tokens {
	t.Helper()
	var out tokens
	if err := json.Unmarshal([]byte(a.body), &out); err != nil || a.status != http.StatusOK || out.Access == "" {
		t.Fatalf("no tokens: %d %s", a.status, clip(a.body))
	}
	return out
}

// token asks the token endpoint as the client, with the form of pairs.
func (c client) token(t *testing.T, pairs ...string) answer {
	t.Helper()
	return c.tokenAt(t, issuer, pairs...)
}

// tokenAt is token at a replica.
func (c client) tokenAt(t *testing.T, base string, pairs ...string) answer {
	t.Helper()
	return call(t, http.MethodPost, base+"/oauth/token", c.form(pairs...))
}

// refresh exchanges a refresh token.
func (c client) refresh(t *testing.T, token string, pairs ...string) answer {
	t.Helper()
	return c.token(t, append([]string{"grant_type", "refresh_token", "refresh_token", token}, pairs...)...)
}

// revoke revokes a token as the client.
func (c client) revoke(t *testing.T, token string, pairs ...string) answer {
	t.Helper()
	return call(t, http.MethodPost, issuer+"/oauth/revoke", c.form(append(pairs, "token", token)...))
}

// introspect asks about a token as the client.
func (c client) introspect(t *testing.T, token string) answer {
	t.Helper()
	return call(t, http.MethodPost, issuer+"/oauth/introspect", c.form("token", token))
}

// passwordLogin logs in as the console does, without a browser.
func passwordLogin(t *testing.T, name string) tokens {
	t.Helper()
	return console.token(t, "grant_type", "password", "username", name, "password", password).tokens(t)
}

// random makes text that nobody guesses, of 43 characters.
func random() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// request is an authorization request of a client.
type request struct {
	client   client
	verifier string
	params   url.Values
}

// ask makes a request with PKCE, state and nonce, for the first redirect URI. Pairs of names and values come in addition, or in
// place of what there is; a value of "" takes a parameter out.
func (c client) ask(pairs ...string) *request {
	q := &request{client: c, verifier: random()}
	q.params = values("response_type", "code", "client_id", c.ID, "redirect_uri", c.RedirectURIs[0], "scope", "openid profile email",
		"state", random(), "nonce", random(), "code_challenge", challenge(q.verifier), "code_challenge_method", "S256")
	for i := 0; i+1 < len(pairs); i += 2 {
		if q.params.Set(pairs[i], pairs[i+1]); pairs[i+1] == "" {
			q.params.Del(pairs[i])
		}
	}
	return q
}

// withoutProof makes a request without PKCE.
func (c client) withoutProof(pairs ...string) *request {
	return c.ask(append([]string{"code_challenge", "", "code_challenge_method", ""}, pairs...)...)
}

// redirect is where the answer has to go.
func (q *request) redirect() string {
	if uri := q.params.Get("redirect_uri"); uri != "" {
		return uri
	}
	return q.client.RedirectURIs[0]
}

func (q *request) address() string { return issuer + "/oauth/authorize?" + q.params.Encode() }

// code has the request answered in a browser in which nobody is asked anything any more, and returns the code.
func (q *request) code(t *testing.T, b *browser) string {
	t.Helper()
	return q.landed(t, b.open(t, q.address()))
}

// landed returns the code of a page that leads back to the client.
func (q *request) landed(t *testing.T, p *page) string {
	t.Helper()
	got := p.leads(t, q.redirect())
	if got.Get("code") == "" || got.Get("state") != q.params.Get("state") {
		t.Fatalf("answered %v", got)
	}
	return got.Get("code")
}

// refused fails the test unless the browser is sent back with an error of that name, the state and the issuer.
func (q *request) refused(t *testing.T, p *page, name string) {
	t.Helper()
	got := p.leads(t, q.redirect())
	if got.Get("error") != name || got.Get("state") != q.params.Get("state") || got.Get("iss") != issuer || got.Has("code") {
		t.Errorf("answered %v, want the error %s, the state and iss", got, name)
	}
}

// redeem exchanges a code. Pairs are as those of ask.
func (q *request) redeem(t *testing.T, code string, pairs ...string) answer {
	t.Helper()
	return call(t, http.MethodPost, issuer+"/oauth/token", q.redemption(code, pairs...))
}

func (q *request) redemption(code string, pairs ...string) url.Values {
	form := q.client.form("grant_type", "authorization_code", "code", code)
	if q.params.Has("redirect_uri") {
		form.Set("redirect_uri", q.params.Get("redirect_uri"))
	}
	if q.params.Has("code_challenge") {
		form.Set("code_verifier", q.verifier)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if form.Set(pairs[i], pairs[i+1]); pairs[i+1] == "" {
			form.Del(pairs[i])
		}
	}
	return form
}

// tokens runs the whole flow in a browser in which nobody is asked anything any more.
func (q *request) tokens(t *testing.T, b *browser) tokens {
	t.Helper()
	return q.redeem(t, q.code(t, b)).tokens(t)
}

// alive fails the test unless an access token opens the API.
func alive(t *testing.T, access string) {
	t.Helper()
	aliveAt(t, issuer, access)
}

func aliveAt(t *testing.T, base, access string) {
	t.Helper()
	if a := call(t, http.MethodGet, base+me, nil, bearer(access)...); a.status != http.StatusOK {
		t.Errorf("the access token does not open the API: %d %s", a.status, clip(a.body))
	}
}

// dead fails the test unless an access token opens nothing.
func dead(t *testing.T, access string) {
	t.Helper()
	deadAt(t, issuer, access)
}

func deadAt(t *testing.T, base, access string) {
	t.Helper()
	for _, path := range []string{me, "/oauth/userinfo"} {
		if a := call(t, http.MethodGet, base+path, nil, bearer(access)...); a.status != http.StatusUnauthorized {
			t.Errorf("the access token opens %s: %d %s", path, a.status, clip(a.body))
		}
	}
}

// me is a path of the API that everybody may get who has a name, without any role.
const me = "/openapi/v3"

// claims returns the two parts of a JWT, unverified.
func claims(t *testing.T, jwt string) (header, payload map[string]any) {
	t.Helper()
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		t.Fatalf("not a JWT: %q", clip(jwt))
	}
	for i, v := range []*map[string]any{&header, &payload} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err == nil {
			err = json.Unmarshal(raw, v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return header, payload
}

// device begins the login of a device.
func (c client) device(t *testing.T, pairs ...string) answer {
	t.Helper()
	return call(t, http.MethodPost, issuer+"/oauth/device_authorization", c.form(pairs...))
}

// poll asks as the device whether somebody has let it in.
func (c client) poll(t *testing.T, deviceCode string) answer {
	t.Helper()
	return c.token(t, "grant_type", "urn:ietf:params:oauth:grant-type:device_code", "device_code", deviceCode)
}

// findDevice types a user code in a browser in which somebody is logged in.
func (b *browser) findDevice(t *testing.T, userCode string) *page {
	t.Helper()
	return b.submit(t, b.open(t, "/oauth/device"), "user_code", userCode)
}

// letIn lets in the device that shows a code.
func (b *browser) letIn(t *testing.T, userCode string) {
	t.Helper()
	b.submit(t, b.findDevice(t, userCode), "answer", "allow").shows(t, http.StatusOK, "Connected")
}

// decoded undoes base64url; "" where it is none.
func decoded(s string) string {
	raw, _ := base64.RawURLEncoding.DecodeString(s) // nothing says it
	return string(raw)
}
