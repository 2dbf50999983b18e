package identity

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
)

// verified returns the claims of an ID token, whose signature, issuer, audience and times a library that others wrote has checked.
func verified(t *testing.T, raw, client string) map[string]any {
	t.Helper()
	ctx := gooidc.ClientContext(t.Context(), &http.Client{Transport: wire})
	provider, err := gooidc.NewProvider(ctx, issuer)
	if err != nil {
		t.Fatal(err)
	}
	token, err := provider.Verifier(&gooidc.Config{ClientID: client, SupportedSigningAlgs: []string{gooidc.RS256}}).Verify(ctx, raw)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := token.Claims(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// module is a test of the OpenID conformance suite, by its name there.
type module struct {
	name string
	run  func(t *testing.T)
}

func modules(t *testing.T, all []module) {
	t.Helper()
	for _, m := range all {
		t.Run(m.name, m.run)
	}
}

// TestOIDCCBasicTestPlan has the modules of the plan of that name that are about requests.
func TestOIDCCBasicTestPlan(t *testing.T) {
	rule(t, "TCore-1", "TCore-2", "TCore-3", "TCore-5", "TCore-6", "TCore-7", "TCore-8", "T9207-1")
	// works runs a request to its end, in a browser in which somebody is logged in.
	works := func(pairs ...string) func(t *testing.T) {
		return func(t *testing.T) {
			q := harbor.ask(pairs...)
			if id := verified(t, q.tokens(t, here(t)).ID, harbor.ID); id["nonce"] != nonNil(q.params.Get("nonce")) {
				t.Errorf("nonce %v", id["nonce"])
			}
		}
	}
	refuses := func(name string, pairs ...string) func(t *testing.T) {
		return func(t *testing.T) {
			storesNothing(t, func() {
				q := harbor.ask(pairs...)
				q.refused(t, here(t).open(t, q.address()), name)
			})
		}
	}
	modules(t, []module{
		{"Server", basicFlow},
		{"IdTokenSignature", works()},
		{"IdTokenRS256", func(t *testing.T) {
			if header, _ := claims(t, harbor.ask().tokens(t, here(t)).ID); header["alg"] != "RS256" {
				t.Errorf("%v", header)
			}
		}},
		{"ResponseTypeMissing", refuses("invalid_request", "response_type", "")},
		{"ResponseTypeToken", refuses("unsupported_response_type", "response_type", "token")},
		{"ResponseTypeIdToken", refuses("unsupported_response_type", "response_type", "id_token")},
		{"ResponseTypeIdTokenWithoutNonce", refuses("unsupported_response_type", "response_type", "id_token", "nonce", "")},
		{"ResponseTypeCodeIdToken", refuses("unsupported_response_type", "response_type", "code id_token")},
		{"EnsureRequestWithoutNonceSucceedsForCodeFlow", works("nonce", "")},
		{"EnsureRequestWithUnknownParameterSucceeds", works("extra", "foobar", "x[]", "y")},
		{"EnsureOtherScopeOrderSucceeds", works("scope", "email openid")},
		{"EnsureRequestWithAcrValuesSucceeds", works("acr_values", "1 2")},
		{"EnsureRequestWithValidPkceSucceeds", works()},
		{"ScopeAddress", works("scope", "openid address")},
		{"ScopePhone", works("scope", "openid phone")},
		{"DisplayPage", works("display", "page")},
		{"DisplayPopup", works("display", "popup")},
		{"UiLocales", works("ui_locales", "se")},
		{"ClaimsLocales", works("claims_locales", "se")},
		{"ClaimsEssential", works("claims", `{"userinfo":{"name":{"essential":true}}}`)},
		{"EnsurePostRequestSucceeds", postedRequest},
		{"RedirectUriRegFrag", badRedirect("#fragment")},
		{"EnsureRegisteredRedirectUri", badRedirect("/other")},
		{"RedirectUriQueryAdded", badRedirect("?foo=bar")},
		{"UnsignedRequestObject", refuses("request_not_supported", "request", segments(`{"alg":"none"}`, map[string]any{"state": "x"}, ""))},
		{"RequestUri", requestURI},
		{"Registration", refuses("registration_not_supported", "registration", "{}")},
		{"OAuthWithoutOpenid", func(t *testing.T) {
			if got := harbor.ask("scope", "profile").tokens(t, here(t)); got.ID != "" {
				t.Error("an ID token came, and nobody asked for one")
			}
		}},
	})
}

// nonNil is a claim that may be missing.
func nonNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// basicFlow looks at every claim of an ID token.
func basicFlow(t *testing.T) {
	name := newUser(t, "openid")
	b := newBrowser(t)
	q := harbor.ask("max_age", "1000")
	before := time.Now().Add(-time.Second).Unix()
	p := b.login(t, b.open(t, q.address()).shows(t, http.StatusOK, "Log in"), name, password)
	if got := p.leads(t, q.redirect()); got.Get("iss") != issuer {
		t.Errorf("iss %q", got.Get("iss"))
	}
	a := q.redeem(t, q.landed(t, p))
	if a.header.Get("Cache-Control") != "no-store" || a.header.Get("Pragma") != "no-cache" ||
		!strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
		t.Errorf("header %v", a.header)
	}
	got := a.tokens(t)
	id := verified(t, got.ID, harbor.ID)
	sub, _ := id["sub"].(string)
	if id["iss"] != issuer || toText(t, id["aud"]) != `["`+harbor.ID+`"]` || id["nonce"] != q.params.Get("nonce") || sub != uidOf(t, name) || len(sub) > 255 {
		t.Errorf("%v", id)
	}
	at, _ := id["auth_time"].(float64)
	iat, _ := id["iat"].(float64)
	exp, _ := id["exp"].(float64)
	if now := time.Now().Unix() + 1; int64(at) < before || int64(at) > now || int64(iat) < before || int64(iat) > now || int64(exp) <= now {
		t.Errorf("auth_time %v, iat %v, exp %v", at, iat, exp)
	}
	if !strings.EqualFold(got.Type, "Bearer") || got.ExpiresIn <= 0 || got.Scope != "openid profile email" {
		t.Errorf("%s, %d s, scope %q", got.Type, got.ExpiresIn, got.Scope)
	}
}

func postedRequest(t *testing.T) {
	q := harbor.ask()
	q.redeem(t, q.landed(t, here(t).post(t, "/oauth/authorize", q.params))).tokens(t)
}

// badRedirect asks for a redirect URI that is not registered, which nobody is ever sent to.
func badRedirect(suffix string) func(t *testing.T) {
	return func(t *testing.T) {
		storesNothing(t, func() {
			p := here(t).open(t, harbor.ask("redirect_uri", harbor.RedirectURIs[0]+suffix).address())
			if p.to != nil || p.status != http.StatusBadRequest {
				t.Errorf("%d, sent to %v", p.status, p.to)
			}
		})
	}
}

// requestURI has an address for a request, which is refused, and never asked (TCore-5: the server would ask what others can't reach).
func requestURI(t *testing.T) {
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer srv.Close()
	for _, address := range []string{srv.URL + "/request", "http://localhost" + srv.URL[strings.LastIndex(srv.URL, ":"):], "file:///etc/passwd",
		"urn:ietf:params:oauth:request_uri:x"} {
		q := harbor.ask("request_uri", address)
		q.refused(t, here(t).open(t, q.address()), "request_uri_not_supported")
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the address was asked %d times", n)
	}
}

// T9207: every answer to a client names the issuer, as the metadata do, whatever it says.
func TestAnswersNameTheIssuer(t *testing.T) {
	rule(t, "T9207-1", "T9207-2", "T8414-1")
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"} {
		doc := get(t, path, "").must(t, http.StatusOK).object()
		if doc["issuer"] != issuer || doc["authorization_response_iss_parameter_supported"] != true {
			t.Errorf("%s: %v, %v", path, doc["issuer"], doc["authorization_response_iss_parameter_supported"])
		}
	}
	for name, c := range map[string]struct {
		q *request
		b *browser
	}{
		"Code":           {harbor.ask(), here(t)},
		"NobodyLoggedIn": {harbor.ask("prompt", "none"), newBrowser(t)},
		"BadRequest":     {harbor.ask("response_type", "token"), here(t)},
		"BadScope":       {harbor.ask("scope", "nothing"), here(t)},
		"Denied":         {refused.ask(), here(t)},
		"PublicWithout":  {desk.withoutProof(), here(t)},
		"QueryKept":      {portal.ask("redirect_uri", portal.RedirectURIs[1]), here(t)},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.b.open(t, c.q.address())
			if got := p.leads(t, c.q.redirect()); len(got["iss"]) != 1 || got.Get("iss") != issuer || got.Get("state") != c.q.params.Get("state") {
				t.Errorf("%v", got)
			}
		})
	}
	q := asking.ask("prompt", "consent")
	p := here(t).open(t, q.address()).shows(t, http.StatusOK, "Allow asking?")
	q.refused(t, here(t).submit(t, p, "answer", "deny"), "access_denied")
}

// The values of prompt, and max_age, by the names of the conformance suite.
func TestOIDCCBasicTestPlanSessions(t *testing.T) {
	rule(t, "TCore-4")
	authTime := func(t *testing.T, q *request, code string) float64 {
		t.Helper()
		at, _ := verified(t, q.redeem(t, code).tokens(t).ID, q.client.ID)["auth_time"].(float64)
		return at
	}
	// again logs in once more where the page asks for that.
	again := func(t *testing.T, pairs ...string) {
		t.Helper()
		b := logIn(t, alice)
		first := harbor.ask("max_age", "10000")
		before := authTime(t, first, first.code(t, b))
		awaitNextSecond(t, int64(before)+1)
		q := harbor.ask(pairs...)
		p := b.open(t, q.address()).shows(t, http.StatusOK, "")
		after := authTime(t, q, q.landed(t, b.login(t, p, alice, password)))
		if after <= before {
			t.Errorf("auth_time %v, and %v before", after, before)
		}
	}
	silent := func(t *testing.T, b *browser, name string, c client, pairs ...string) {
		t.Helper()
		storesNothing(t, func() {
			q := c.ask(append(pairs, "prompt", "none")...)
			p := b.open(t, q.address())
			q.refused(t, p, name)
			if len(p.hops) != 1 {
				t.Errorf("the browser was shown something: %d answers", len(p.hops))
			}
		})
	}
	modules(t, []module{
		{"PromptNoneNotLoggedIn", func(t *testing.T) { silent(t, newBrowser(t), "login_required", harbor) }},
		{"PromptNoneLoggedIn", func(t *testing.T) {
			first := harbor.ask()
			before := verified(t, first.tokens(t, here(t)).ID, harbor.ID)
			q := harbor.ask("prompt", "none")
			after := verified(t, q.tokens(t, here(t)).ID, harbor.ID)
			if after["sub"] != before["sub"] || after["auth_time"] != before["auth_time"] {
				t.Errorf("before %v, after %v", before, after)
			}
		}},
		{"PromptNoneWithoutConsent", func(t *testing.T) {
			silent(t, here(t), "consent_required", newClient(t, client{ID: "unasked", Secret: random(), GrantMethod: "prompt"}))
		}},
		{"PromptNoneWithOthers", func(t *testing.T) {
			q := harbor.ask("prompt", "none login")
			q.refused(t, here(t).open(t, q.address()), "invalid_request")
		}},
		{"PromptNoneAndTooOld", func(t *testing.T) { silent(t, here(t), "login_required", harbor, "max_age", "0") }},
		{"PromptLogin", func(t *testing.T) { again(t, "prompt", "login") }},
		{"PromptConsent", func(t *testing.T) {
			q := harbor.ask("prompt", "consent")
			p := here(t).open(t, q.address()).shows(t, http.StatusOK, "Allow harbor?")
			q.landed(t, here(t).submit(t, p, "answer", "allow"))
		}},
		{"MaxAge1", func(t *testing.T) { again(t, "max_age", "1") }},
		{"MaxAge10000", func(t *testing.T) {
			q := harbor.ask("max_age", "10000")
			if at := authTime(t, q, q.code(t, here(t))); at == 0 {
				t.Error("there is no auth_time")
			}
		}},
		{"MaxAgeThatIsNoNumber", func(t *testing.T) {
			q := harbor.ask("max_age", "soon")
			q.refused(t, here(t).open(t, q.address()), "invalid_request")
		}},
		{"LoginHint", func(t *testing.T) {
			p := newBrowser(t).open(t, harbor.ask("login_hint", "bob").address()).shows(t, http.StatusOK, "Log in")
			if name := p.form(t, url.Values{"username": {}}).fields.Get("username"); name != "bob" {
				t.Errorf("the page suggests %q", name)
			}
		}},
		{"IdTokenHint", func(t *testing.T) {
			got := harbor.ask().tokens(t, here(t))
			q := harbor.ask("prompt", "none", "id_token_hint", got.ID)
			q.redeem(t, q.code(t, here(t))).tokens(t)
			silent(t, logIn(t, newUser(t, "hint")), "login_required", harbor, "id_token_hint", got.ID)
			q = harbor.ask("prompt", "none", "id_token_hint", "x.y.z")
			q.refused(t, here(t).open(t, q.address()), "invalid_request")
		}},
	})
}

// awaitNextSecond waits until the second has come: times in tokens are whole ones.
func awaitNextSecond(t *testing.T, second int64) {
	t.Helper()
	within(t, time.Minute, "the second "+strconv.FormatInt(second, 10), func(context.Context) error {
		if time.Now().Unix() > second {
			return nil
		}
		return errTooEarly
	})
}
