package identity

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

// journey begins a login of a client's at the provider, and returns the browser, and where the provider sends it back to.
func (u *upstream) journey(t *testing.T) (b *browser, q *request, back *url.URL) {
	t.Helper()
	b, q = newBrowser(t), harbor.ask()
	return b, q, u.consent(t, u.begin(t, b, b.open(t, q.address()).shows(t, http.StatusOK, "Log in")))
}

// nobody fails the test unless the answer to a callback logs nobody in: no code for the client, no session.
func (u *upstream) nobody(t *testing.T, b *browser, back *url.URL, headers ...string) *page {
	t.Helper()
	var p *page
	storesNothing(t, func() { p = b.open(t, back.String(), append(headers, "Sec-Fetch-Site: cross-site")...) })
	if p.to != nil || p.status < 400 || p.status > 499 {
		t.Errorf("%d %q, sent to %v", p.status, p.heading(), p.to)
	}
	b.open(t, "/oauth/account").shows(t, http.StatusOK, "Log in")
	if a := get(t, usersPath+"/"+u.name+"-jane", admin(t)); a.status != http.StatusNotFound {
		t.Errorf("the account was made: %d", a.status)
	}
	return p
}

// S41: what comes back from a provider counts in the browser that was sent there, once, and with the state that went along.
func TestAnswersOfProvidersAreBoundToTheirBrowser(t *testing.T) {
	rule(t, "S41", "S38", "S43", "T9700-17", "T9700-16", "T9207-3", "TCore-12")
	u := newUpstream(t, "bound")
	changed := func(name string, to ...string) func(t *testing.T) {
		return func(t *testing.T) {
			b, _, back := u.journey(t)
			v := back.Query()
			if v[name] = to; len(to) == 0 {
				v.Del(name)
			}
			back.RawQuery = v.Encode()
			u.nobody(t, b, back)
		}
	}
	modules(t, []module{
		{"NoState", changed("state")},
		{"AnotherState", changed("state", random())},
		{"AnEmptyState", changed("state", "")},
		{"StateTwice", changed("state", random(), random())},
		{"AnotherIssuer", changed("iss", "https://evil.example")},
		{"NoIssuer", changed("iss")},
		{"IssuerTwice", changed("iss", u.Base, "https://evil.example")},
		{"AnotherCode", changed("code", random())},
		{"AnError", changed("error", "access_denied")},
		{"ABrowserThatBeganNothing", func(t *testing.T) {
			_, _, back := u.journey(t)
			u.nobody(t, newBrowser(t), back)
		}},
		{"ABrowserThatBeganAnother", func(t *testing.T) { // the attacker's code in the victim's browser
			_, _, back := u.journey(t)
			victim, _, _ := u.journey(t)
			u.nobody(t, victim, back)
		}},
		{"TheCodeOfAnotherWithOnesOwnState", func(t *testing.T) { // PKCE and nonce are another's
			_, _, attack := u.journey(t)
			victim, _, back := u.journey(t)
			v := back.Query()
			v.Set("code", attack.Query().Get("code"))
			back.RawQuery = v.Encode()
			u.nobody(t, victim, back)
		}},
		{"AtAnotherProvider", func(t *testing.T) { // T9700-16
			other := newUpstream(t, "mixed")
			b, _, back := u.journey(t)
			back.Path = strings.Replace(back.Path, u.name, other.name, 1)
			u.nobody(t, b, back)
		}},
		{"AChangedCookie", func(t *testing.T) {
			b, _, back := u.journey(t)
			b.tamper(t, "ks-idp-")
			u.nobody(t, b, back)
		}},
		{"ARefreshedPage", func(t *testing.T) { // what was sent before comes again
			b, _, back := u.journey(t)
			u.Forge = func(c map[string]any) { c["nonce"] = "x" }
			u.nobody(t, b, back)
			u.Forge = nil
			u.nobody(t, b, back)
		}},
	})
	t.Run("NobodyChangedAnything", func(t *testing.T) {
		b, q, back := u.journey(t)
		q.redeem(t, q.landed(t, b.open(t, back.String(), "Sec-Fetch-Site: cross-site"))).tokens(t)
		p := b.open(t, back.String(), "Sec-Fetch-Site: cross-site") // it counts once
		if p.to != nil || p.status != http.StatusBadRequest {
			t.Errorf("the second time: %d, sent to %v", p.status, p.to)
		}
	})
	t.Run("WhatIsSentThereIsRandom", func(t *testing.T) {
		seen := map[string]bool{}
		for range 8 {
			b := newBrowser(t)
			asked := u.begin(t, b, b.open(t, "/oauth/login")).Query()
			for _, name := range []string{"state", "nonce", "code_challenge"} {
				if v := asked.Get(name); len(v) < 43 || seen[v] { // 256 bits in base64url
					t.Errorf("%s is %q", name, v)
				}
				seen[asked.Get(name)] = true
			}
			if asked.Get("code_challenge_method") != "S256" || asked.Get("redirect_uri") != issuer+"/oauth/callback/"+u.name {
				t.Errorf("%v", asked)
			}
		}
	})
}

// tamper changes a cookie of the product whose name has that in it.
func (b *browser) tamper(t *testing.T, name string) {
	t.Helper()
	at, err := url.Parse(issuer)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range b.jar.Cookies(at) {
		if strings.Contains(c.Name, name) {
			half := len(c.Value) / 2
			other := byte('A')
			if c.Value[half] == other {
				other = 'B'
			}
			b.jar.SetCookies(at, []*http.Cookie{{Name: c.Name, Value: c.Value[:half] + string(other) + c.Value[half+1:], Path: "/", Secure: true}})
			return
		}
	}
	t.Fatalf("there is no cookie %s", name)
}

// S30, S45, TCore-12: an ID token that is not of the provider, for this server, for this login, or of this time, logs nobody in.
func TestForgedIDTokensOfProvidersLogNobodyIn(t *testing.T) {
	rule(t, "S30", "S41", "S45", "TCore-12")
	u := newUpstream(t, "forged", "getUserInfo: true")
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Unix()
	set := func(name string, value any) func(map[string]any) {
		return func(c map[string]any) { maps.Copy(c, map[string]any{name: value}) }
	}
	kid, key := u.Key()
	header := map[string]any{"kid": kid, "typ": "JWT"}
	rows := []struct {
		name  string
		forge func(map[string]any)
		sign  func(map[string]any) string
		info  func(map[string]any)
	}{
		{name: "S30/AnotherAudience", forge: set("aud", "other")},
		{name: "S30/AnotherAudienceInAList", forge: set("aud", []string{"other"})},
		{name: "S30/SeveralAudiencesAndNoAzp", forge: set("aud", []string{idptest.ClientID, "other"})},
		{name: "S30/AnotherAzp", forge: set("azp", "other")},
		{name: "S30/NoAudience", forge: func(c map[string]any) { delete(c, "aud") }},
		{name: "S41/AnotherNonce", forge: set("nonce", random())},
		{name: "S41/NoNonce", forge: func(c map[string]any) { delete(c, "nonce") }},
		{name: "TCore-12/AnotherIssuer", forge: set("iss", "https://evil.example")},
		{name: "TCore-12/Expired", forge: set("exp", now-600)},
		{name: "TCore-12/OfTheFuture", forge: set("iat", now+3600)},
		{name: "TCore-12/NoSubject", forge: func(c map[string]any) { delete(c, "sub") }},
		{name: "S45/AlgNone", sign: func(c map[string]any) string { return segments(`{"alg":"none"}`, c, "") }},
		{name: "S45/AnotherKey", sign: func(c map[string]any) string { return sign(t, jwt.SigningMethodRS256, foreign, header, c) }},
		{name: "S45/AKeyOfItsOwn", sign: func(c map[string]any) string {
			return sign(t, jwt.SigningMethodRS256, foreign, map[string]any{"jwk": jwk(&foreign.PublicKey, "own")}, c)
		}},
		{name: "S45/HMACWithThePublicKey", sign: func(c map[string]any) string {
			return sign(t, jwt.SigningMethodHS256, publicPEM(&key.PublicKey), header, c)
		}},
		{name: "S45/HMACWithTheClientSecret", sign: func(c map[string]any) string {
			return sign(t, jwt.SigningMethodHS256, []byte(idptest.ClientSecret), header, c)
		}},
		{name: "S45/ChangedAfterwards", sign: func(c map[string]any) string {
			parts := strings.Split(sign(t, jwt.SigningMethodRS256, key, header, c), ".")
			return segments(fmt.Sprintf(`{"alg":"RS256","kid":%q}`, kid), claimed(c, "sub", "admin"), parts[2])
		}},
		{name: "S45/WithoutSignature", sign: func(c map[string]any) string {
			return segments(fmt.Sprintf(`{"alg":"RS256","kid":%q}`, kid), c, base64.RawURLEncoding.EncodeToString(make([]byte, 256)))
		}},
		{name: "S45/UserinfoOfAnother", info: set("sub", "admin")},
		{name: "S45/UserinfoOfNobody", info: func(c map[string]any) { delete(c, "sub") }},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			u.Forge, u.Sign, u.Info = r.forge, r.sign, r.info
			b, _, back := u.journey(t)
			u.nobody(t, b, back)
		})
	}
	u.Forge, u.Sign, u.Info = nil, nil, nil
	b, q, back := u.journey(t)
	q.redeem(t, q.landed(t, b.open(t, back.String(), "Sec-Fetch-Site: cross-site"))).tokens(t)
}

// S45: no provider can be configured whose tokens could not be verified: with endpoints of its own it needs its issuer, and its keys.
func TestAProviderWithoutKeysIsNotOne(t *testing.T) {
	rule(t, "S45")
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		http.NotFound(w, r)
	}))
	defer srv.Close()
	for name, keys := range map[string]string{
		"NoIssuer": fmt.Sprintf("  endpoint: {authURL: %[1]s/a, tokenURL: %[1]s/t, jwksURL: %[1]s/k}\n", srv.URL),
		"NoKeys":   fmt.Sprintf("  issuer: %[1]s\n  endpoint: {authURL: %[1]s/a, tokenURL: %[1]s/t}\n", srv.URL),
	} {
		t.Run(name, func(t *testing.T) {
			id := provide(t, "nokeys", "OIDCIdentityProvider", fmt.Sprintf("  clientID: x\n  clientSecret: y\n%s", keys))
			storesNothing(t, func() {
				p := newBrowser(t).open(t, "/oauth/login/"+id)
				if p.to != nil || p.status < 400 {
					t.Errorf("%d %q, sent to %v", p.status, p.heading(), p.to)
				}
			})
		})
	}
}

// provide configures a provider of a type and returns its name; settings is its section provider.
func provide(t *testing.T, prefix, kind, settings string) string {
	t.Helper()
	name := unique(prefix)
	secret := &corev1.Secret{Type: "config.kubesphere.io/identityprovider", StringData: map[string]string{
		"configuration.yaml": fmt.Sprintf("name: %s\ntype: %s\nmappingMethod: auto\nprovider:\n%s", name, kind, settings)}}
	secret.Name, secret.Labels = "idp-"+name, map[string]string{"config.kubesphere.io/type": "identityprovider"}
	if _, err := kube.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { forget(secret.Name) })
	eventually(t, "provider "+name+" is looked at", configured(name))
	return name
}

func forget(secret string) {
	_ = kube.CoreV1().Secrets(namespace).Delete(context.Background(), secret, metav1.DeleteOptions{})
}

// configured returns nil once the product has looked at a provider, whatever it thinks of it.
func configured(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		a, err := try(ctx, http.MethodGet, issuer+"/kapis/config.kubesphere.io/v1alpha2/identityproviders/"+name, nil, bearer(administrator)...)
		if err == nil && (a.status != http.StatusOK || !strings.Contains(a.body, `"Configured"`)) {
			err = fmt.Errorf("%d %s", a.status, clip(a.body))
		}
		return err
	}
}
