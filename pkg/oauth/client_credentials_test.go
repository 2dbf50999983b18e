package oauth

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	iamlogin "kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/oauth/grant"
	"kapis.dev/ks-apiserver/pkg/token"
)

func credentialsOf(client, secret string, pairs ...string) url.Values {
	return with(url.Values{"grant_type": {"client_credentials"}, "client_id": {client}, "client_secret": {secret}}, pairs...)
}

// T6749-19, T9700-15: a client acts for itself only, and gets no refresh token.
func TestClientActsForItself(t *testing.T) {
	f := newReplicas(t, 2, nil)
	s := f.servers[0]
	r := s.post(t, credentialsOf("harbor", "harbor-secret-1234"), nil)
	uncached(t, r)
	if r.code != http.StatusOK || r.str("refresh_token") != "" || r.str("id_token") != "" {
		t.Fatalf("%d %s", r.code, r.text)
	}
	claims := payload(t, r.str("access_token"))
	if claims["sub"] != "client:harbor" || claims["client_id"] != "harbor" || claims["username"] != "client:harbor" {
		t.Errorf("%v", claims)
	}
	a, err := f.servers[1].verifier.Access(r.str("access_token"))
	if err != nil {
		t.Fatal(err)
	}
	if u, err := f.servers[1].sessions.Authenticate(t.Context(), a); err != nil || u.GetName() != "client:harbor" || len(u.GetGroups()) != 1 {
		t.Errorf("%v, %v", u, err)
	}
	if got := s.userinfo(t, r.str("access_token")); got.code != http.StatusForbidden {
		t.Errorf("a client has an identity: %d %s", got.code, got.text)
	}
	wants{400, "unauthorized_client"}.check(t, s.post(t, credentialsOf("cli", ""), nil))
	wants{400, "invalid_scope"}.check(t, s.post(t, credentialsOf("harbor", "harbor-secret-1234", "scope", "openid"), nil))
	wants{401, "unauthorized_client"}.check(t, s.post(t, credentialsOf("harbor", "wrong-secret"), nil))
}

// S54: the console's default secret is public knowledge. With it alone, no login is possible.
func TestAClientWhoseSecretIsKnownDoesNotActForItself(t *testing.T) {
	f := newReplicas(t, 1, nil)
	for client, secret := range map[string]string{"kubesphere": "kubesphere", "argo": "argo-secret"} {
		wants{400, "unauthorized_client"}.check(t, f.servers[0].post(t, credentialsOf(client, secret), nil))
	}
	if len(f.sessions) > 0 {
		t.Errorf("%d sessions", len(f.sessions))
	}
}

// T9700-15: the subject of a client is never that of a user, whatever the names are.
func TestClientIsNoUser(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	_, hash := stand()
	f.user("harbor", hash, "Active")
	mine := payload(t, s.post(t, credentialsOf("harbor", "harbor-secret-1234"), nil).str("access_token"))
	his := payload(t, s.post(t, consoleLogin("harbor", password), nil).str("access_token"))
	if mine["sub"] == his["sub"] || mine["username"] == his["username"] {
		t.Errorf("client %v, user %v", mine["sub"], his["sub"])
	}
}

func withMembers(s *settings) {
	s.edit = func(o *Options) { o.Audiences = func() []string { return []string{"member1"} } }
}

// T9700-8, T9068-4, S33: a token for a member cluster is valid there, and nowhere else.
func TestTokenIsExchangedForOneOfAMember(t *testing.T) {
	f := newReplicas(t, 1, withMembers)
	s := f.servers[0]
	access, refresh := s.login(t)
	f.clock.Step(time.Hour)
	ask := func(pairs ...string) url.Values {
		return with(url.Values{"grant_type": {grant.TokenExchange}, "client_id": {"kubesphere"}, "client_secret": {"kubesphere"},
			"subject_token": {access}, "subject_token_type": {grant.TypeAccessToken}, "audience": {"member1"}}, pairs...)
	}
	r := s.post(t, ask(), nil)
	uncached(t, r)
	if r.code != http.StatusOK || r.str("issued_token_type") != grant.TypeAccessToken || r.body["expires_in"] != float64(3600) || r.str("refresh_token") != "" {
		t.Fatalf("%d %s", r.code, r.text)
	}
	if s.userinfo(t, r.str("access_token")).code != http.StatusUnauthorized {
		t.Error("the member's token is good here")
	}
	keys, _ := stand()
	member, err := token.NewVerifier(token.Rules{Keys: keys, Issuer: issuerURL, Audience: "kapis:member1", Now: f.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	old, _ := s.verifier.Access(access)
	if a, err := member.Access(r.str("access_token")); err != nil || a.Subject != "uid-alice" || a.Session != old.Session || a.Expires.After(old.Expires) {
		t.Errorf("%+v, %v", a, err)
	}
	id := s.post(t, with(consoleLogin("alice", password), "scope", "openid"), nil).str("id_token")
	for name, test := range map[string]struct {
		form url.Values
		want wants
	}{
		"client that is not trusted": {ask("client_id", "harbor", "client_secret", "harbor-secret-1234"), wants{400, "unauthorized_client"}},
		"public client":              {ask("client_id", "cli", "client_secret", ""), wants{400, "unauthorized_client"}},
		"unknown audience":           {ask("audience", "host"), wants{400, "invalid_target"}},
		"no audience":                {ask("audience", ""), wants{400, "invalid_target"}},
		"resource":                   {ask("resource", "https://x.example"), wants{400, "invalid_target"}},
		"no token":                   {ask("subject_token", ""), wants{400, "invalid_request"}},
		"another type":               {ask("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"), wants{400, "invalid_request"}},
		"another type wanted":        {ask("requested_token_type", "urn:ietf:params:oauth:token-type:refresh_token"), wants{400, "invalid_request"}},
		"actor":                      {ask("actor_token", access), wants{400, "invalid_request"}},
		"refresh token":              {ask("subject_token", refresh), wants{400, "invalid_grant"}},
		"ID token":                   {ask("subject_token", id), wants{400, "invalid_grant"}},
		"the member's token":         {ask("subject_token", r.str("access_token")), wants{400, "invalid_grant"}},
		"wider scope":                {ask("scope", "openid"), wants{400, "invalid_scope"}},
	} {
		t.Run(name, func(t *testing.T) { test.want.check(t, s.post(t, test.form, nil)) })
	}
	if err := s.sessions.End(t.Context(), old.Session, "test"); err != nil {
		t.Fatal(err)
	}
	wants{400, "invalid_grant"}.check(t, s.post(t, ask(), nil))
}

// T9700-7: the password grant can be switched off, and is not advertised then.
func TestPasswordGrantCanBeSwitchedOff(t *testing.T) {
	f := newReplicas(t, 1, func(s *settings) { s.edit = func(o *Options) { o.PasswordGrant = false } })
	s := f.servers[0]
	wants{400, "unsupported_grant_type"}.check(t, s.post(t, consoleLogin("alice", password), nil))
	if doc := do(t, request(t, http.MethodGet, s.URL+"/.well-known/openid-configuration", "", nil)); strings.Contains(doc.text, `"password"`) {
		t.Error(doc.text)
	}
}

// needsFactor requires a second factor after each password.
type needsFactor struct{ *iamlogin.Authenticator }

func (n needsFactor) Password(ctx context.Context, a iamlogin.Attempt) (*iam.AuthnResult, error) {
	result, err := n.Authenticator.Password(ctx, a)
	if err == nil {
		result.Pending = true
	}
	return result, err
}

// The token of a login without its second factor gives no access, and is bound to its client, its user and its lifetime.
func TestPendingLoginOpensNothing(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	s.oauth.tokenEndpoint.Authenticator = needsFactor{s.oauth.Authenticator}
	pend := func(client, secret string) string {
		r := s.post(t, with(consoleLogin("alice", password), "client_id", client, "client_secret", secret), nil)
		if r.code != http.StatusBadRequest || r.str("error") != "mfa_required" || r.str("mfa_token") == "" || strings.Contains(r.str("mfa_token"), "alice") {
			t.Fatalf("%d %s", r.code, r.text)
		}
		return r.str("mfa_token")
	}
	otp := func(pairs ...string) url.Values {
		return with(
			url.Values{
				"grant_type":    {"otp"},
				"client_id":     {"kubesphere"},
				"client_secret": {"kubesphere"},
				"otp":           {"123456"},
				"token":         {pend("kubesphere", "kubesphere")},
			},
			pairs...)
	}
	before := f.written()
	for name, test := range map[string]struct {
		form url.Values
		want wants
	}{
		"wrong code":                 {otp(), wants{400, "invalid_grant"}},
		"no code":                    {otp("otp", ""), wants{400, "invalid_request"}},
		"no token":                   {otp("token", ""), wants{400, "invalid_request"}},
		"garbage":                    {otp("token", "x"), wants{400, "invalid_grant"}},
		"an authorization code":      {otp("token", s.codeOf(t)), wants{400, "invalid_grant"}},
		"of another client":          {otp("token", pend("od:d +c", "s:e %c+r")), wants{400, "invalid_grant"}},
		"client that is not trusted": {otp("client_id", "harbor", "client_secret", "harbor-secret-1234"), wants{400, "unsupported_grant_type"}},
		"as a bearer token":          {with(renewal(pend("kubesphere", "kubesphere"))), wants{400, "invalid_grant"}},
	} {
		t.Run(name, func(t *testing.T) { test.want.check(t, s.post(t, test.form, nil)) })
	}
	late := otp()
	f.clock.Step(grant.SecondFactorLife)
	wants{400, "invalid_grant"}.check(t, s.post(t, late, nil))
	if f.written() > before+1 { // the browser's session of the authorization code
		t.Error("a login without its second factor has written something")
	}
}

// withGroups is an authenticator by a directory that gives groups, where each login needs a second factor.
type withGroups struct {
	*fakeAuthenticator
	groups []string
}

func (g withGroups) Password(ctx context.Context, a iamlogin.Attempt) (*iam.AuthnResult, error) {
	result, err := g.Authenticator.Password(ctx, a)
	if err == nil {
		result.Pending, result.Groups = true, g.groups
		result.Hint, result.Refresh = strings.Repeat("h", iam.MaxSessionSecret+1), strings.Repeat("r", iam.MaxSessionSecret)
	}
	return result, err
}

// The token of a pending login has room for all that a session keeps of a provider. One that would not be opened again is not given.
func TestWhoHasManyGroupsGivesTheSecondFactorToTheTokenEndpoint(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	login := func(groups []string) reply {
		s.oauth.tokenEndpoint.Authenticator = withGroups{&fakeAuthenticator{Authenticator: s.oauth.Authenticator}, groups}
		return s.post(t, consoleLogin("alice", password), nil)
	}
	r := login(manyGroups(300))
	wants{400, "mfa_required"}.check(t, r)
	r = s.post(t, url.Values{"grant_type": {"otp"}, "client_id": {"kubesphere"}, "client_secret": {"kubesphere"}, "otp": {otp},
		"token": {r.str("mfa_token")}}, nil)
	if r.code != http.StatusOK {
		t.Fatalf("%d %s", r.code, r.text)
	}
	if got := groupsOfSession(t, s.sessions.Of("uid-alice")); !slices.Equal(got, manyGroups(iam.MaxSessionGroups)) {
		t.Errorf("%d groups", len(got))
	}
	large := make([]string, iam.MaxSessionGroupBytes/iam.MaxSessionGroup)
	for i := range large {
		large[i] = fmt.Sprint(strings.Repeat("<", iam.MaxSessionGroup-2), 10+i) // JSON makes six bytes of each
	}
	wants{400, "invalid_grant"}.check(t, login(large))
}

func (s *server) codeOf(t testing.TB) string {
	t.Helper()
	return s.code(t, s.browser(t, "alice"), harborAsks())
}

func (s *server) form(t testing.TB, path string, form url.Values, header map[string]string) reply {
	t.Helper()
	return do(t, request(t, http.MethodPost, s.URL+path, form.Encode(), header))
}

func asHarbor(tok string, pairs ...string) url.Values {
	return with(url.Values{"client_id": {"harbor"}, "client_secret": {"harbor-secret-1234"}, "token": {tok}}, pairs...)
}

// T7009-1, T7009-3, T7009-5: revoking either token ends the whole session, on every replica, whatever the hint is.
func TestRevocationEndsTheSession(t *testing.T) {
	f := newReplicas(t, 2, nil)
	s := f.servers[0]
	for _, kind := range []string{"refresh_token", "access_token"} {
		for _, hint := range []string{"", "access_token", "refresh_token", "unknown"} {
			r := s.redeem(t, s.codeOf(t), nil)
			got := s.form(t, "/oauth/revoke", asHarbor(r.str(kind), "token_type_hint", hint), nil)
			if got.code != http.StatusOK || got.text != "" || got.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s, hint %q: %d %s", kind, hint, got.code, got.text)
			}
			for _, other := range f.servers {
				if code := other.userinfo(t, r.str("access_token")).code; code != http.StatusUnauthorized {
					t.Errorf("%s, hint %q: userinfo %d", kind, hint, code)
				}
				wants{
					400,
					"invalid_grant",
				}.check(
					t,
					other.post(t, with(renewal(r.str("refresh_token")), "client_id", "harbor", "client_secret", "harbor-secret-1234"), nil),
				)
			}
			if again := s.form(t, "/oauth/revoke", asHarbor(r.str(kind)), nil); again.code != http.StatusOK {
				t.Errorf("the second time: %d", again.code)
			}
		}
	}
}

// T7009-2, T7009-4, T7009-6, T6749-2.
func TestRevocationRefuses(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	r := s.redeem(t, s.codeOf(t), nil)
	access, refresh := s.login(t)
	for name, test := range map[string]struct {
		form url.Values
		code int
		err  string
	}{
		"unknown":                {asHarbor("x"), 200, ""},
		"refresh token made up":  {asHarbor("abc.1." + strings.Repeat("A", 43)), 200, ""},
		"another's access token": {asHarbor(access), 400, "invalid_grant"},
		"another's refresh":      {asHarbor(refresh), 400, "invalid_grant"},
		"ID token":               {asHarbor(r.str("id_token")), 400, "unsupported_token_type"},
		"nothing":                {asHarbor(""), 400, "invalid_request"},
		"wrong secret":           {asHarbor(r.str("refresh_token"), "client_secret", "wrong-secret-x"), 401, "unauthorized_client"},
		"no client":              {asHarbor(r.str("refresh_token"), "client_id", ""), 400, "invalid_client"},
		"token twice":            {url.Values{"client_id": {"harbor"}, "client_secret": {"harbor-secret-1234"}, "token": {"a", "b"}}, 400, "invalid_request"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := s.form(t, "/oauth/revoke", test.form, nil); got.code != test.code || got.str("error") != test.err {
				t.Errorf("%d %s", got.code, got.text)
			}
		})
	}
	if got := s.form(t, "/oauth/revoke?token=x", asHarbor("x"), nil); got.code != http.StatusBadRequest {
		t.Errorf("a token in the URL: %d", got.code)
	}
	for _, tok := range []string{access, r.str("access_token")} {
		if s.userinfo(t, tok).code != http.StatusOK {
			t.Error("a refusal has ended a session")
		}
	}
	f.setDown(true)
	wants{503, "temporarily_unavailable"}.check(t, s.form(t, "/oauth/revoke", asHarbor(r.str("refresh_token")), nil))
}

// T7662-1, T7662-2, T7662-3, T7662-4.
func TestIntrospection(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	r := s.redeem(t, s.codeOf(t), nil)
	access, refresh := s.login(t)
	got := s.form(t, "/oauth/introspect", asHarbor(r.str("access_token")), nil)
	uncached(t, got)
	for name, want := range map[string]any{"active": true, "client_id": "harbor", "username": "alice", "sub": "uid-alice", "scope": "openid profile",
		"token_type": "Bearer",
		"iss":        issuerURL, "aud": "kapis:host", "exp": float64(startTime().Add(2 * time.Hour).Unix()), "iat": float64(startTime().Unix())} {
		if got.body[name] != want {
			t.Errorf("%s is %v", name, got.body[name])
		}
	}
	kubesphere := func(tok string) url.Values {
		return asHarbor(tok, "client_id", "kubesphere", "client_secret", "kubesphere")
	}
	if got := s.form(t, "/oauth/introspect", kubesphere(r.str("access_token")), nil); got.body["active"] != true {
		t.Errorf("the platform's own client: %s", got.text)
	}
	keys, _ := stand()
	member := &token.Issuer{Keys: keys, URL: issuerURL, Audience: "kapis:member", Now: f.clock.Now}
	alien, _ := member.Access(
		&token.Access{Subject: "uid-alice", Username: "alice", Client: "harbor", Session: f.names()[0], Issued: startTime(), Expires: startTime().Add(time.Hour)},
	)
	for name, form := range map[string]url.Values{
		"garbage": asHarbor("x"), "another's": asHarbor(access), "refresh token": asHarbor(r.str("refresh_token")),
		"refresh token, asked by its own": kubesphere(refresh),
		"ID token":                        asHarbor(r.str("id_token")), "another cluster's": asHarbor(alien),
	} {
		if got := s.form(t, "/oauth/introspect", form, nil); got.code != http.StatusOK || got.text != `{"active":false}` {
			t.Errorf("%s: %d %s", name, got.code, got.text)
		}
	}
	for name, form := range map[string]url.Values{"nobody": {"token": {access}}, "public client": {"token": {access}, "client_id": {"cli"}}} {
		wants{401, "invalid_client"}.check(t, s.form(t, "/oauth/introspect", form, nil))
		_ = name
	}
	wants{401, "unauthorized_client"}.check(t, s.form(t, "/oauth/introspect", asHarbor(access, "client_secret", "wrong-secret-x"), nil))
	wants{400, "invalid_request"}.check(t, s.form(t, "/oauth/introspect", asHarbor(""), nil))
	basic := map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("harbor:harbor-secret-1234"))}
	if got := s.form(t, "/oauth/introspect", url.Values{"token": {r.str("access_token")}}, basic); got.body["active"] != true {
		t.Errorf("by Basic: %d %s", got.code, got.text)
	}
	_, hash := stand()
	f.user("alice", hash, "Disabled")
	if got := s.form(t, "/oauth/introspect", asHarbor(r.str("access_token")), nil); got.text != `{"active":false}` {
		t.Errorf("of a user that is disabled: %s", got.text)
	}
}
