package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

type tokenReply struct {
	Access    string `json:"access_token"`
	Refresh   string `json:"refresh_token"`
	Type      string `json:"token_type"`
	ExpiresIn int    `json:"expires_in"`
	Error     string `json:"error"`
	Desc      string `json:"error_description"`
}

func tokenCall(ctx context.Context, base string, form url.Values, headers ...string) (reply, error) {
	form.Set("client_id", "kubesphere")
	form.Set("client_secret", "kubesphere")
	headers = append([]string{"Content-Type: application/x-www-form-urlencoded"}, headers...)
	return caller{base: base}.do(ctx, http.MethodPost, "/oauth/token", form.Encode(), headers...)
}

func passwordGrant(ctx context.Context, base, user, pass string) (reply, error) {
	return tokenCall(ctx, base, url.Values{"grant_type": {"password"}, "username": {user}, "password": {pass}, "encrypt": {"x@y"}})
}

func tokens(t *testing.T, base, user, pass string) tokenReply {
	t.Helper()
	r, err := passwordGrant(t.Context(), base, user, pass)
	if err != nil || r.code != http.StatusOK {
		t.Fatalf("log in as %s: %d %s %v", user, r.code, r.body, err)
	}
	return decode[tokenReply](t, r.body)
}

func refresh(t *testing.T, base, token string, headers ...string) reply {
	t.Helper()
	r, err := tokenCall(t.Context(), base, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}, headers...)
	if err != nil {
		t.Fatalf("refresh: %v", err)
	}
	return r
}

func claims(t *testing.T, jwt string) (header, payload map[string]any) {
	t.Helper()
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		t.Fatalf("not a JWT: %q", clip(jwt))
	}
	for i, v := range []*map[string]any{&header, &payload} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, v); err != nil {
			t.Fatal(err)
		}
	}
	return header, payload
}

func TestTheConsolesLogin(t *testing.T) { // T9068-1, T9068-2, T6749-20
	r, err := passwordGrant(t.Context(), product.URL, "admin", product.AdminPassword)
	if err != nil || r.code != http.StatusOK {
		t.Fatalf("%d %s %v", r.code, r.body, err)
	}
	if r.header.Get("Cache-Control") != "no-store" || r.header.Get("Pragma") != "no-cache" {
		t.Errorf("the answer may be stored: %v", r.header)
	}
	got := decode[tokenReply](t, r.body)
	if got.Type != "Bearer" || got.Refresh == "" || got.ExpiresIn < 600 {
		t.Errorf("token_type %q, expires_in %d, refresh token there: %v", got.Type, got.ExpiresIn, got.Refresh != "")
	}
	h, p := claims(t, got.Access)
	if h["typ"] != "at+jwt" || h["kid"] == "" || h["alg"] == "none" {
		t.Errorf("header %v", h)
	}
	for _, k := range []string{"iss", "aud", "sub", "jti", "exp", "iat", "client_id", "username"} {
		if p[k] == nil || p[k] == "" {
			t.Errorf("claim %s is missing: %v", k, p)
		}
	}
	if p["username"] != "admin" {
		t.Errorf("username %v", p["username"])
	}
	keys := anonymous().must(t, http.StatusOK, http.MethodGet, "/oauth/keys", nil)
	if !strings.Contains(keys.body, fmt.Sprint(h["kid"])) {
		t.Errorf("the key %v is not published: %s", h["kid"], keys.body)
	}
	user := caller{product.URL, got.Access}.must(t, http.StatusOK, http.MethodGet, "/oauth/userinfo", nil)
	if info := decode[map[string]any](t, user.body); info["preferred_username"] != "admin" || info["sub"] != p["sub"] {
		t.Errorf("userinfo %s", user.body)
	}
}

func TestWrongCredentialsAreRefusedAlike(t *testing.T) { // S50
	var first string
	for _, c := range [][2]string{{"admin", "Wrong-123"}, {"nobody-here", "Wrong-123"}, {"admin", ""}, {"ADMIN", product.AdminPassword}} {
		r, err := passwordGrant(t.Context(), product.URL, c[0], c[1])
		if err != nil {
			t.Fatal(err)
		}
		if c[1] == "" { // an empty parameter is an omitted one
			if r.code != http.StatusBadRequest {
				t.Errorf("%q: %d %s", c, r.code, r.body)
			}
			continue
		}
		if r.code != http.StatusBadRequest || decode[tokenReply](t, r.body).Error != "invalid_grant" {
			t.Errorf("%q: %d %s", c, r.code, r.body)
		}
		if first == "" {
			first = r.body
		} else if r.body != first {
			t.Errorf("answers differ: %q and %q", first, r.body)
		}
	}
}

func TestLoginByEMailAddress(t *testing.T) {
	name := unique("mail")
	newUser(t, name)
	got := tokens(t, product.URL, name+"@example.com", password)
	if _, p := claims(t, got.Access); p["username"] != name {
		t.Errorf("logged in as %v, want %s", p["username"], name)
	}
}

func TestRefreshTokensRotateAndParallelOnesWork(t *testing.T) { // T9700-9
	name := unique("rotate")
	newUser(t, name)
	old := tokens(t, product.URL, name, password)
	// The console refreshes in parallel with one token, and sends it as a Bearer as well.
	replies := make([]reply, 8)
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() { replies[i] = refresh(t, product.URL, old.Refresh, "Authorization: Bearer "+old.Refresh) })
	}
	wg.Wait()
	for i, r := range replies {
		if r.code != http.StatusOK {
			t.Fatalf("parallel refresh %d: %d %s", i, r.code, r.body)
		}
		got := decode[tokenReply](t, r.body)
		if got.Refresh == old.Refresh {
			t.Error("the refresh token was not rotated")
		}
		caller{product.URL, got.Access}.must(t, http.StatusOK, http.MethodGet, "/oauth/userinfo", nil)
	}
	if next := refresh(t, product.URL, decode[tokenReply](t, replies[7].body).Refresh); next.code != http.StatusOK {
		t.Errorf("a token of a parallel refresh does not refresh: %d %s", next.code, next.body)
	}
	if r := refresh(t, product.URL, old.Access); r.code != http.StatusBadRequest { // S32
		t.Errorf("an access token refreshes: %d %s", r.code, r.body)
	}
	if r, err := (caller{product.URL, old.Refresh}).do(t.Context(), http.MethodGet, "/oauth/userinfo", nil); err != nil ||
		r.code != http.StatusUnauthorized { // S32
		t.Errorf("a refresh token opens the API: %d %v", r.code, err)
	}
}

// revocation is how long one may take to reach every replica.
const revocation = 5 * time.Second

func TestSessionsEndOnEveryReplica(t *testing.T) { // S36, S37
	other, err := product.Replica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Stop() })
	me := "/oauth/userinfo"
	start := func(t *testing.T) (name string, here, there caller, tk tokenReply) {
		name = unique("session")
		newUser(t, name)
		eventually(t, "both replicas know the user", func(ctx context.Context) error {
			r, err := passwordGrant(ctx, other.URL, name, password)
			if err == nil && r.code != http.StatusOK {
				err = fmt.Errorf("%d %s", r.code, r.body)
			}
			return err
		})
		tk = tokens(t, product.URL, name, password)
		here, there = caller{product.URL, tk.Access}, caller{other.URL, tk.Access}
		there.must(t, http.StatusOK, http.MethodGet, me, nil) // at once: login on one, call on the other
		return name, here, there, tk
	}
	users := "/apis/iam.kubesphere.io/v1beta1/users/"
	merge := "Content-Type: application/merge-patch+json"
	for _, c := range []struct {
		name string
		end  func(t *testing.T, name string, here caller)
	}{
		{"logout", func(t *testing.T, _ string, here caller) {
			here.must(t, http.StatusOK, http.MethodGet, "/oauth/logout", nil)
		}},
		{"a changed password", func(t *testing.T, name string, _ caller) {
			admin(t).must(t, http.StatusOK, http.MethodPatch, users+name, `{"spec":{"password":"Other-1234"}}`, merge)
		}},
		{"a disabled user", func(t *testing.T, name string, _ caller) {
			admin(t).must(t, http.StatusOK, http.MethodPatch, users+name+"/status", `{"status":{"state":"Disabled"}}`, merge)
		}},
		{"a deleted user", func(t *testing.T, name string, _ caller) {
			admin(t).must(t, http.StatusOK, http.MethodDelete, users+name, nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			name, here, there, tk := start(t)
			c.end(t, name, here)
			within(t, revocation, "the token is refused by the other replica", there.is(http.StatusUnauthorized, http.MethodGet, me))
			within(t, revocation, "the token is refused by the first replica", here.is(http.StatusUnauthorized, http.MethodGet, me))
			if r := refresh(t, other.URL, tk.Refresh); r.code != http.StatusBadRequest {
				t.Errorf("the session still refreshes: %d %s", r.code, r.body)
			}
		})
	}
}

func TestMetadataNamesOnlyWhatWorks(t *testing.T) { // T8414-4
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"} {
		doc := decode[map[string]any](t, anonymous().must(t, http.StatusOK, http.MethodGet, path, nil).body)
		for k, v := range doc {
			if !strings.HasSuffix(k, "_endpoint") && k != "jwks_uri" {
				continue
			}
			u, err := url.Parse(v.(string))
			if err != nil {
				t.Fatal(err)
			}
			r, err := anonymous().do(t.Context(), http.MethodGet, u.Path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.code == http.StatusNotFound || r.code == http.StatusForbidden {
				t.Errorf("%s names %s = %s, which answers %d", path, k, v, r.code)
			}
		}
	}
}
