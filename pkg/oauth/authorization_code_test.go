package oauth

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/oauth/grant"
)

// redemption is the token request with which a client with a secret redeems a code.
func redemption(code string, pairs ...string) url.Values {
	return with(
		url.Values{
			"grant_type":    {"authorization_code"},
			"code":          {code},
			"redirect_uri":  {harborURI},
			"client_id":     {"harbor"},
			"client_secret": {"harbor-secret-1234"},
		},
		pairs...)
}

// spaRedeems is that of a client without a secret.
func spaRedeems(code string, pairs ...string) url.Values {
	return with(
		url.Values{
			"grant_type":    {"authorization_code"},
			"code":          {code},
			"redirect_uri":  {"https://spa.example/cb"},
			"client_id":     {"spa"},
			"code_verifier": {verifier},
		},
		pairs...)
}

func (s *server) redeem(t testing.TB, code string, header map[string]string) reply {
	t.Helper()
	return s.post(t, redemption(code), header)
}

// payload returns the claims of a token, unverified.
func payload(t testing.TB, token string) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("no token: %q", token)
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// T6749-20, T7636-1, TCore-1, TCore-7, TCore-10, T9068-1, T9068-2: the response to a valid code.
func TestCodeIsRedeemedForTokens(t *testing.T) {
	f := newReplicas(t, 2, func(s *settings) { s.edit = func(o *Options) { o.EmailVerified = nil } })
	s := f.servers[0]
	b := s.browser(t, "alice")
	f.clock.Step(10 * time.Minute)
	code := s.code(t, b, spaAsks("scope", "openid profile email groups", "nonce", "n-0S6_WzA2Mj"))
	r := f.servers[1].post(t, spaRedeems(code), nil)
	uncached(t, r)
	if r.code != http.StatusOK || r.str("token_type") != "Bearer" || r.str("refresh_token") == "" || r.str("scope") != "openid profile email groups" ||
		r.body["expires_in"] != float64(7200) {
		t.Fatalf("%d %s", r.code, r.text)
	}
	id := payload(t, r.str("id_token"))
	for name, want := range map[string]any{"iss": issuerURL, "sub": "uid-alice", "aud": []any{"spa"}, "nonce": "n-0S6_WzA2Mj", "preferred_username": "alice",
		"name": "The alice", "email": "alice@example.com", "locale": "en", "groups": []any{"dev"}, "amr": []any{"pwd"},
		"auth_time": float64(startTime().Unix()), "iat": float64(startTime().Add(10 * time.Minute).Unix())} {
		if got, _ := json.Marshal(id[name]); string(got) != marshal(want) && string(got) != strings.Trim(marshal(want), "[]") {
			t.Errorf("%s is %s", name, got)
		}
	}
	if _, told := id["email_verified"]; told {
		t.Error("nobody has verified the e-mail")
	}
	access := payload(t, r.str("access_token"))
	for _, name := range []string{"iss", "exp", "aud", "sub", "client_id", "iat", "jti", "sid", "scope"} {
		if access[name] == nil {
			t.Errorf("the access token lacks %s", name)
		}
	}
	header, _ := base64.RawURLEncoding.DecodeString(strings.Split(r.str("access_token"), ".")[0])
	if !strings.Contains(string(header), `"typ":"at+jwt"`) || !strings.Contains(string(header), `"alg":"RS256"`) {
		t.Errorf("%s", header)
	}
	info := s.userinfo(t, r.str("access_token"))
	if info.str("sub") != "uid-alice" || info.str("preferred_username") != "alice" || info.body["groups"] == nil { // TCore-9
		t.Errorf("%d %s", info.code, info.text)
	}
	f.clock.Step(time.Minute)
	again := s.post(t, url.Values{"grant_type": {"refresh_token"}, "client_id": {"spa"}, "refresh_token": {r.str("refresh_token")}}, nil)
	next := payload(t, again.str("id_token")) // TCore-11
	if next["sub"] != id["sub"] || next["auth_time"] != id["auth_time"] || next["iat"] == id["iat"] || next["nonce"] != nil {
		t.Errorf("%v", next)
	}
}

func marshal(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// TCore-10: an e-mail is marked as verified only if a provider has verified it.
func TestEmailIsVerifiedOnlyByThoseWhoCan(t *testing.T) {
	f := newReplicas(t, 1, func(s *settings) {
		s.edit = func(o *Options) { o.EmailVerified = func(u *iam.User) bool { return u.Name == "alice" } }
	})
	r := f.servers[0].redeem(t, f.servers[0].code(t, f.servers[0].browser(t, "alice"), harborAsks("scope", "openid email")), nil)
	if payload(t, r.str("id_token"))["email_verified"] != true {
		t.Errorf("%s", r.text)
	}
}

// TCore-1: a user recreated under the same name is another subject.
func TestSubjectIsTheUID(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	r := s.redeem(t, s.code(t, s.browser(t, "alice"), harborAsks()), nil)
	if sub := payload(t, r.str("id_token"))["sub"]; sub != s.users.ByName("alice").UID || sub == "alice" {
		t.Errorf("sub is %v", sub)
	}
}

// T6749-14, T6749-16, T6749-17, T6749-18, T7636-2, T7636-5, T7636-6, T9700-3, T9700-4, S32, S39, S44: requests that do not redeem a code.
// None of them uses it up.
func TestCodeIsRefused(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	b := s.browser(t, "alice")
	plain, proved, spa := s.code(
		t,
		b,
		harborAsks(),
	), s.code(
		t,
		b,
		harborAsks("code_challenge", challenge(), "code_challenge_method", "S256"),
	), s.code(
		t,
		b,
		spaAsks(),
	)
	implied := with(harborAsks(), "redirect_uri", "")
	bare := s.authorize(t, b, implied).sentTo(t, harborURI).Get("code")
	if strings.Contains(plain, ".") || strings.Contains(spa, challenge()) {
		t.Error("a code can be read")
	}
	access, refresh := s.login(t)
	before := f.written()
	for name, test := range map[string]struct {
		form url.Values
		want wants
	}{
		"no code":                          {redemption(""), wants{400, "invalid_request"}},
		"garbage":                          {redemption("garbage"), wants{400, "invalid_grant"}},
		"cut":                              {redemption(plain[:len(plain)-1]), wants{400, "invalid_grant"}},
		"access token":                     {redemption(access), wants{400, "invalid_grant"}},
		"refresh token":                    {redemption(refresh), wants{400, "invalid_grant"}},
		"another client":                   {redemption(plain, "client_id", "argo", "client_secret", "argo-secret"), wants{400, "invalid_grant"}},
		"public client takes it":           {redemption(plain, "client_id", "spa", "client_secret", "", "code_verifier", verifier), wants{400, "invalid_grant"}},
		"secret missing":                   {redemption(plain, "client_secret", ""), wants{401, "invalid_client"}},
		"client missing":                   {redemption(plain, "client_id", ""), wants{400, "invalid_client"}},
		"other URI":                        {redemption(plain, "redirect_uri", "https://harbor.example/"), wants{400, "invalid_grant"}},
		"URI missing":                      {redemption(plain, "redirect_uri", ""), wants{400, "invalid_grant"}},
		"URI that was not sent, and other": {redemption(bare, "redirect_uri", "https://harbor.example/"), wants{400, "invalid_grant"}},
		"verifier without a challenge":     {redemption(plain, "code_verifier", verifier), wants{400, "invalid_grant"}},
		"verifier missing":                 {redemption(proved), wants{400, "invalid_grant"}},
		"verifier wrong":                   {redemption(proved, "code_verifier", verifier[1:]+"A"), wants{400, "invalid_grant"}},
		"public, verifier missing":         {spaRedeems(spa, "code_verifier", ""), wants{400, "invalid_grant"}},
		"verifier of 42":                   {spaRedeems(spa, "code_verifier", verifier[:42]), wants{400, "invalid_request"}},
		"verifier of 129":                  {spaRedeems(spa, "code_verifier", strings.Repeat("a", 129)), wants{400, "invalid_request"}},
		"verifier of other letters":        {spaRedeems(spa, "code_verifier", verifier[1:]+"ä"), wants{400, "invalid_request"}},
		"challenge as verifier":            {spaRedeems(spa, "code_verifier", challenge()), wants{400, "invalid_grant"}},
	} {
		t.Run(name, func(t *testing.T) { test.want.check(t, s.post(t, test.form, nil)) })
	}
	if f.written() != before {
		t.Error("a refusal has written something")
	}
	for name, form := range map[string]url.Values{"plain": redemption(plain), "proved": redemption(proved, "code_verifier", verifier), "spa": spaRedeems(spa),
		"bare": redemption(bare, "redirect_uri", "")} {
		if r := s.post(t, form, nil); r.code != http.StatusOK {
			t.Errorf("%s: %d %s", name, r.code, r.text)
		}
	}
}

// T6749-14: a code expires.
func TestCodeExpires(t *testing.T) {
	for name, test := range map[string]struct {
		life, after time.Duration
		code        int
	}{
		"at the last moment":   {0, grant.DefaultCodeLife - time.Second, 200},
		"a minute later":       {0, grant.DefaultCodeLife, 400},
		"longest, last second": {grant.MaxCodeLife, grant.MaxCodeLife - time.Second, 200},
		"ten minutes and one":  {grant.MaxCodeLife, grant.MaxCodeLife + time.Second, 400},
	} {
		t.Run(name, func(t *testing.T) {
			f := newReplicas(t, 1, func(s *settings) { s.edit = func(o *Options) { o.CodeLife = test.life } })
			s := f.servers[0]
			code := s.code(t, s.browser(t, "alice"), harborAsks())
			f.clock.Step(test.after)
			if r := s.redeem(t, code, nil); r.code != test.code {
				t.Errorf("%d %s", r.code, r.text)
			}
		})
	}
	if _, err := New(Options{Issuer: issuerURL, CodeLife: grant.MaxCodeLife + 1}); err == nil {
		t.Error("a code may live for more than ten minutes")
	}
}

// T6749-15: a code can be used once. Of fifty requests at once on two replicas, one gets tokens, which are then invalidated.
func TestCodeIsGoodOnce(t *testing.T) {
	f := newReplicas(t, 2, nil)
	code := f.servers[0].code(t, f.servers[0].browser(t, "alice"), harborAsks())
	replies := make([]reply, 50)
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() { replies[i] = f.servers[i%2].redeem(t, code, nil) })
	}
	wg.Wait()
	won := slices.DeleteFunc(slices.Clone(replies), func(r reply) bool { return r.code != http.StatusOK })
	if len(won) != 1 {
		t.Fatalf("%d redemptions succeeded", len(won))
	}
	for _, r := range replies {
		if r.code != http.StatusOK {
			wants{400, "invalid_grant"}.check(t, r)
		}
	}
	wants{400, "invalid_grant"}.check(t, f.servers[1].redeem(t, code, nil))
	for _, s := range f.servers {
		if got := s.userinfo(t, won[0].str("access_token")); got.code != http.StatusUnauthorized {
			t.Errorf("the access token lives: %d", got.code)
		}
		wants{
			400,
			"invalid_grant",
		}.check(
			t,
			s.post(
				t,
				url.Values{
					"grant_type":    {"refresh_token"},
					"client_id":     {"harbor"},
					"client_secret": {"harbor-secret-1234"},
					"refresh_token": {won[0].str("refresh_token")},
				},
				nil,
			),
		)
	}
}

// S37, T6749-15: a code is valid no longer than the login that it was issued for.
func TestCodeDiesWithTheLogin(t *testing.T) {
	_, hash := stand()
	for name, end := range map[string]func(*replicas, *server, string){
		"logged out":       func(_ *replicas, s *server, b string) { _ = s.sessions.End(t.Context(), b, "test") },
		"user is disabled": func(f *replicas, _ *server, _ string) { f.user("alice", hash, iamapi.UserDisabled) },
		"password changed": func(f *replicas, _ *server, _ string) { f.user("alice", hash[:len(hash)-1]+"0", iamapi.UserActive) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newReplicas(t, 1, nil)
			s := f.servers[0]
			b := s.browser(t, "alice")
			code := s.code(t, b, harborAsks())
			end(f, s, b)
			wants{400, "invalid_grant"}.check(t, s.redeem(t, code, nil))
		})
	}
}

// T9068-4, T9068-5: an access token is for this server, which may be requested by its own name only; its claims are no more than the
// client may know about the user.
func TestAccessTokensAreForThisServerAndSayNoMoreThanTheirScope(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	b := s.browser(t, "alice")
	code := s.code(t, b, harborAsks("scope", "openid", "resource", issuerURL))
	wants{400, "invalid_target"}.check(t, s.post(t, with(redemption(code), "resource", "https://x.example"), nil))
	r := s.post(t, with(redemption(code), "resource", issuerURL), nil)
	said := payload(t, r.str("access_token"))
	if said["groups"] != nil || strings.Contains(fmt.Sprint(said["extra"]), "email") || said["username"] != "alice" {
		t.Errorf("%v", said)
	}
	r = s.redeem(t, s.code(t, b, harborAsks("scope", "openid email groups")), nil)
	if said = payload(t, r.str("access_token")); said["groups"] == nil || !strings.Contains(fmt.Sprint(said["extra"]), "alice@") {
		t.Errorf("%v", said)
	}
}
