package oidc

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

// served returns an OP on loopback, and a provider for it with a clock that the test controls.
func served(t *testing.T, change func(op *idptest.OP, s *Settings)) (*idptest.OP, *Provider, *time.Duration) {
	t.Helper()
	var op *idptest.OP
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { op.Mux.ServeHTTP(w, r) }))
	t.Cleanup(srv.Close)
	op = idptest.NewOP(srv.URL)
	s := Settings{Issuer: srv.URL, ClientID: idptest.ClientID, ClientSecret: idp.NewSecret(idptest.ClientSecret)}
	if change != nil {
		change(op, &s)
	}
	p, err := Open(s, Preset{}, idp.OpenOptions{Name: "test", AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	ahead := new(time.Duration)
	p.now = func() time.Time { return time.Now().Add(*ahead) }
	return op, p, ahead
}

// arrive goes to the OP and returns.
func arrive(t *testing.T, p *Provider) idp.Callback {
	t.Helper()
	b := idp.Begin{Callback: "https://ks.example/oauth/callback/test", State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text()}
	address, err := p.Begin(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	back, err := url.Parse(resp.Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	return idp.Callback{Values: back.Query(), Callback: b.Callback, Nonce: b.Nonce, Verifier: b.Verifier}
}

func TestTheIssuerOfTheAnswerIsCompared(t *testing.T) { // T9207-3, T9700-16
	for name, test := range map[string]struct {
		change func(v url.Values)
		silent bool
		good   bool
	}{
		"ItsOwn":                         {func(url.Values) {}, false, true},
		"Another":                        {func(v url.Values) { v.Set("iss", "https://evil.example") }, false, false},
		"Empty":                          {func(v url.Values) { v.Set("iss", "") }, false, false},
		"Two":                            {func(v url.Values) { v.Add("iss", "https://evil.example") }, false, false},
		"NoneWhereItIsPromised":          {func(v url.Values) { v.Del("iss") }, false, false},
		"NoneWhereItIsNotPromised":       {func(v url.Values) { v.Del("iss") }, true, true},
		"AnotherWhereItIsNotPromised":    {func(v url.Values) { v.Set("iss", "https://evil.example") }, true, false},
		"AnotherOfAnErrorIsNotRepeated":  {func(v url.Values) { v.Set("iss", "https://evil.example"); v.Set("error", "access_denied") }, false, false},
		"AnErrorOfItsOwn":                {func(v url.Values) { v.Set("error", "access_denied") }, false, false},
		"AnErrorThatNobodyKnowsIsHidden": {func(v url.Values) { v.Set("error", "<script>canary") }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, p, _ := served(t, func(op *idptest.OP, _ *Settings) {
				if test.silent {
					op.Metadata = func(d map[string]any) { delete(d, "authorization_response_iss_parameter_supported") }
				}
			})
			back := arrive(t, p)
			test.change(back.Values)
			who, err := p.Finish(t.Context(), back)
			if test.good != (err == nil) || !test.good && !errors.Is(err, idp.ErrRefused) {
				t.Errorf("%+v, %v", who, err)
			}
			if err != nil && (strings.Contains(err.Error(), "evil") || strings.Contains(err.Error(), "canary")) {
				t.Errorf("the error repeats what the browser brought: %v", err)
			}
		})
	}
}

func TestKeysAreFetchedAgainForAnUnknownOneAndNotTooOften(t *testing.T) { // TCore-12
	op, p, ahead := served(t, nil)
	if _, err := p.Finish(t.Context(), arrive(t, p)); err != nil {
		t.Fatal(err)
	}
	if n := op.KeyRequests.Load(); n != 1 {
		t.Fatalf("the first login asks for keys %d times", n)
	}
	next, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	op.Rotate("second", next)
	*ahead += keyPause
	if _, err := p.Finish(t.Context(), arrive(t, p)); err != nil || op.KeyRequests.Load() != 2 {
		t.Errorf("after a rotation: %v, %d requests", err, op.KeyRequests.Load())
	}
	op.Sign = func(c map[string]any) string { return idptest.SignJWT("RS256", next, "third", c) }
	for range 5 {
		if _, err := p.Finish(t.Context(), arrive(t, p)); !errors.Is(err, idp.ErrRefused) {
			t.Errorf("an unknown key: %v", err)
		}
	}
	if n := op.KeyRequests.Load(); n != 2 {
		t.Errorf("within the pause, unknown keys cause %d requests", n-2)
	}
}

func TestAKeyThatIsWithdrawnEndsWithinTheLifeOfTheCache(t *testing.T) {
	op, p, ahead := served(t, nil)
	kid, old := op.Key()
	if _, err := p.Finish(t.Context(), arrive(t, p)); err != nil {
		t.Fatal(err)
	}
	next, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	op.Rotate("second", next)
	op.Sign = func(c map[string]any) string {
		c["exp"] = time.Now().Add(3 * time.Hour).Unix()
		return idptest.SignJWT("RS256", old, kid, c)
	}
	*ahead = time.Hour
	if _, err := p.Finish(t.Context(), arrive(t, p)); !errors.Is(err, idp.ErrRefused) {
		t.Errorf("a withdrawn key: %v", err)
	}
}

func TestAWeakKeyIsNotTaken(t *testing.T) { // T8725-2
	t.Setenv("GODEBUG", "rsa1024min=0")
	weakKey, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	op, p, _ := served(t, nil)
	op.Rotate("weak", weakKey)
	if _, err := p.Finish(t.Context(), arrive(t, p)); err == nil {
		t.Error("a key of 1024 bits is taken")
	}
}

func TestMetadataIsReadOnceAnHourAndServesOnWithoutTheServer(t *testing.T) {
	op, p, ahead := served(t, nil)
	for range 3 {
		if _, err := p.Begin(t.Context(), idp.Begin{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := op.Discoveries.Load(); n != 1 {
		t.Errorf("read %d times", n)
	}
	*ahead = 2 * time.Hour
	op.Metadata = func(d map[string]any) { clear(d) } // broken
	if _, err := p.Begin(t.Context(), idp.Begin{}); err != nil || op.Discoveries.Load() != 2 {
		t.Errorf("%v, read %d times", err, op.Discoveries.Load())
	}
}

func TestMetadataThatCanNotBeTrustedIsRefused(t *testing.T) {
	for name, change := range map[string]func(d map[string]any){
		"AnotherIssuer":      claim("issuer", "https://evil.example"),
		"AnIssuerWithASlash": func(d map[string]any) { d["issuer"] = d["issuer"].(string) + "/" },
		"ManyTenants":        claim("issuer", "https://login.example/{tenantid}/v2.0"),
		"NoKeys":             claim("jwks_uri", nil),
		"KeysWithoutTLS":     claim("jwks_uri", "http://idp.example/keys"),
		"ATokenFile":         claim("token_endpoint", "file:///etc/passwd"),
		"OnlyHMAC":           claim("id_token_signing_alg_values_supported", []string{"HS256", "none"}),
		"OnlyJWTClients":     claim("token_endpoint_auth_methods_supported", []string{"private_key_jwt"}),
	} {
		t.Run(name, func(t *testing.T) {
			_, p, _ := served(t, func(op *idptest.OP, _ *Settings) { op.Metadata = change })
			_, err := p.Begin(t.Context(), idp.Begin{})
			if !errors.Is(err, idp.ErrUnavailable) {
				t.Errorf("begin: %v", err)
			}
			if err := p.Check(t.Context()); err == nil || errors.Is(err, idp.ErrUnavailable) {
				t.Errorf("check: want an error that says what to change, got: %v", err)
			}
			if name == "ManyTenants" && (err == nil || !strings.Contains(err.Error(), "tenant")) {
				t.Errorf("the error does not say what it is about: %v", err)
			}
		})
	}
}

func TestAnIssuerOfManyTenantsIsNamedAsSuch(t *testing.T) { // U32
	_, err := Type().Open([]byte("issuer: https://login.microsoftonline.com/{tenantid}/v2.0\nclientID: a"), idp.OpenOptions{})
	if err == nil || !strings.Contains(err.Error(), "issuer") || !strings.Contains(err.Error(), "not supported") {
		t.Errorf("%v", err)
	}
}

func TestSettingsWithoutEffectAreRefused(t *testing.T) { // U33
	for _, text := range []string{"groupsPrefix: x", "groupsKey: g\ngroupsPrefix: 'system:'", "scopes: ['openid profile']", "endpoint: {scopes: [a]}",
		"endpoint: []", "scope: openid"} {
		if _, err := Type().Open([]byte("issuer: https://idp.example\nclientID: a\n"+text), idp.OpenOptions{}); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestPKCEIsLeftOutOnlyWhereItIsKnownToBeOfNoUse(t *testing.T) { // T9700-3
	for name, test := range map[string]struct {
		methods any
		want    bool
	}{"Supported": {[]string{"S256"}, true}, "Unknown": {nil, true}, "PlainOnly": {[]string{"plain"}, false}} {
		t.Run(name, func(t *testing.T) {
			_, p, _ := served(t, func(op *idptest.OP, _ *Settings) {
				op.Metadata = claim("code_challenge_methods_supported", test.methods)
			})
			address, err := p.Begin(t.Context(), idp.Begin{Verifier: "v"})
			if err != nil || strings.Contains(address, "code_challenge=") != test.want {
				t.Errorf("%s, %v", address, err)
			}
			if _, err := p.Finish(t.Context(), arrive(t, p)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheClientProvesItselfAsTheProviderWants(t *testing.T) {
	for name, test := range map[string]struct {
		methods  any
		formOnly bool
	}{"Basic": {[]string{"client_secret_basic", "client_secret_post"}, false}, "Post": {[]string{"client_secret_post"}, true}, "UnknownAndBasic": {nil, false},
		"UnknownAndPost": {nil, true}} {
		t.Run(name, func(t *testing.T) {
			_, p, _ := served(t, func(op *idptest.OP, _ *Settings) {
				op.FormOnly = test.formOnly
				op.Metadata = claim("token_endpoint_auth_methods_supported", test.methods)
			})
			for range 2 {
				if _, err := p.Finish(t.Context(), arrive(t, p)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestARefreshWithoutAnIDTokenGoesByTheUserinfo(t *testing.T) {
	op, p, _ := served(t, nil)
	who, err := p.Finish(t.Context(), arrive(t, p))
	if err != nil {
		t.Fatal(err)
	}
	op.IDToken = nil
	again, err := p.Refresh(t.Context(), who.Subject, who.Refresh)
	if err != nil || again.Subject != who.Subject || again.Hint != "" {
		t.Fatalf("%+v, %v", again, err)
	}
	if _, err := p.Refresh(t.Context(), "another", again.Refresh); !errors.Is(err, idp.ErrGone) {
		t.Errorf("another person: %v", err)
	}
}

func TestARefreshDoesNotEndSessionsForFaultsOfTheServer(t *testing.T) {
	op, p, _ := served(t, nil)
	who, err := p.Finish(t.Context(), arrive(t, p))
	if err != nil {
		t.Fatal(err)
	}
	op.Forge = claim("aud", "other")
	if _, err := p.Refresh(t.Context(), who.Subject, who.Refresh); !errors.Is(err, idp.ErrUnavailable) || errors.Is(err, idp.ErrGone) ||
		errors.Is(err, idp.ErrRefused) {
		t.Errorf("a token that does not hold: %v", err)
	}
	if _, err := p.Refresh(t.Context(), who.Subject, ""); !errors.Is(err, idp.ErrUnaskable) || errors.Is(err, idp.ErrGone) {
		t.Errorf("no refresh token: %v", err)
	}
}

func TestLogoutGoesUp(t *testing.T) { // TLogout-6, U34
	op, p, _ := served(t, nil)
	who, err := p.Finish(t.Context(), arrive(t, p))
	if err != nil {
		t.Fatal(err)
	}
	address, err := p.Logout(t.Context(), who.Hint, "https://ks.example/oauth/logout", "state")
	u, bad := url.Parse(address)
	if err != nil || bad != nil {
		t.Fatal(err, bad)
	}
	q := u.Query()
	if !strings.HasPrefix(address, op.Base+"/logout?") || q.Get("id_token_hint") != who.Hint || q.Get("client_id") != idptest.ClientID ||
		q.Get("post_logout_redirect_uri") != "https://ks.example/oauth/logout" || q.Get("state") != "state" {
		t.Errorf("%s", address)
	}
	_, p, _ = served(t, func(op *idptest.OP, _ *Settings) { op.Metadata = claim("end_session_endpoint", nil) })
	if address, err := p.Logout(t.Context(), "", "https://ks.example/", "s"); address != "" || err != nil {
		t.Errorf("without such a page: %q, %v", address, err)
	}
	_, p, _ = served(t, func(_ *idptest.OP, s *Settings) { s.PostLogoutRedirectURI = "https://console.example/bye" })
	if address, err := p.Logout(t.Context(), "", "https://ks.example/", ""); err != nil ||
		!strings.Contains(address, url.QueryEscape("https://console.example/bye")) || strings.Contains(address, "hint") {
		t.Errorf("with an address of its own: %q, %v", address, err)
	}
}

// The console redirects users there with the URL alone, whether or not the provider can be reached at that moment.
func TestThePageOfALogoutIsToldOnceItIsKnown(t *testing.T) { // U34
	op, p, ahead := served(t, nil)
	if got := p.EndSession(); got != "" || op.Discoveries.Load() != 0 {
		t.Errorf("before anybody asked the provider: %q", got)
	}
	arrive(t, p)
	want := op.Base + "/logout?client_id=" + idptest.ClientID
	for range 2 {
		if got := p.EndSession(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		*ahead += 48 * time.Hour // however old it is
	}
	if n := op.Discoveries.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	_, p, _ = served(t, func(_ *idptest.OP, s *Settings) {
		s.Endpoint.EndSessionURL, s.PostLogoutRedirectURI = "https://sso.example/out?x=1", "https://console.example/login"
	})
	if got := p.EndSession(); got != "https://sso.example/out?client_id="+idptest.ClientID+"&post_logout_redirect_uri="+url.QueryEscape(
		"https://console.example/login",
	)+"&x=1" {
		t.Errorf("as configured: %q", got)
	}
	_, p, _ = served(t, func(op *idptest.OP, _ *Settings) { op.Metadata = claim("end_session_endpoint", nil) })
	if arrive(t, p); p.EndSession() != "" {
		t.Errorf("without such a page: %q", p.EndSession())
	}
}

var _ idp.EndSession = (*Provider)(nil)
