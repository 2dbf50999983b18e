package oauth

import (
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/oauth/ratelimit"
	"kapis.dev/ks-apiserver/pkg/token"
)

// uncached asserts T6749-20.
func uncached(t *testing.T, r reply) {
	t.Helper()
	if r.header.Get("Cache-Control") != "no-store" || r.header.Get("Pragma") != "no-cache" ||
		!strings.HasPrefix(r.header.Get("Content-Type"), "application/json") {
		t.Errorf("headers %v", r.header)
	}
}

// T6749-20, and the console's login: a form with the parameter encrypt, and a token with claims.
func TestConsoleLogsIn(t *testing.T) {
	f := newReplicas(t, 1, nil)
	for name, user := range map[string]string{"by name": "alice", "by e-mail": "ALICE@example.com"} {
		t.Run(name, func(t *testing.T) {
			r := f.servers[0].post(t, consoleLogin(user, password), nil)
			uncached(t, r)
			if r.code != http.StatusOK || r.str("token_type") != "Bearer" || r.body["expires_in"] != float64(7200) || r.str("refresh_token") == "" {
				t.Fatalf("%d %s", r.code, r.text)
			}
			for _, absent := range []string{"id_token", "scope"} {
				if _, ok := r.body[absent]; ok {
					t.Errorf("%s was not asked for", absent)
				}
			}
			payload, err := base64.RawURLEncoding.DecodeString(strings.Split(r.str("access_token"), ".")[1])
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{`"username":"alice"`, `"groups":["dev"]`, `"email":["alice@example.com"]`, `"uninitialized":["true"]`, `"sub":"uid-alice"`} {
				if !strings.Contains(string(payload), want) {
					t.Errorf("%s is not in %s", want, payload)
				}
			}
		})
	}
}

// wants is an expected refusal.
type wants struct {
	code  int
	error string
}

func (w wants) check(t *testing.T, r reply) {
	t.Helper()
	uncached(t, r)
	if r.code != w.code || r.str("error") != w.error || r.str("error_description") == "" || r.body["access_token"] != nil {
		t.Errorf("got %d %s, want %d %s", r.code, r.text, w.code, w.error)
	}
	if r.code == http.StatusUnauthorized && r.header.Get("WWW-Authenticate") == "" {
		t.Error("401 without WWW-Authenticate")
	}
	if r.code == http.StatusServiceUnavailable && r.header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
}

// A client that is given nothing is not given anything for what it got before either.
func TestAClientThatIsDeniedGetsNothingByItsSessions(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	_, refresh, err := s.sessions.Open(t.Context(), session.Login{AuthnResult: iam.AuthnResult{User: s.users.ByName("alice")}, Client: "denied"})
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []url.Values{renewal(refresh), {"grant_type": {"client_credentials"}}, {"grant_type": {"authorization_code"}, "code": {"x"}}} {
		form.Set("client_id", "denied")
		form.Set("client_secret", "denied-secret")
		wants{400, "unauthorized_client"}.check(t, s.post(t, form, nil))
	}
}

// The error table of the token endpoint; T6749-3, T6749-4, T6749-18, T6749-21, T6749-23, S50.
func TestTokenEndpointRefuses(t *testing.T) {
	f := newReplicas(t, 1, nil)
	_, hash := stand()
	f.user("disabled", hash, iamapi.UserDisabled)
	f.user("pending", password, "")
	f.user("locked", hash, iamapi.UserAuthLimitExceeded)
	access, refresh := f.servers[0].login(t)
	before := f.written()
	with := func(form url.Values, pairs ...string) url.Values {
		form = maps.Clone(form)
		for i := 0; i < len(pairs); i += 2 {
			form.Set(pairs[i], pairs[i+1])
		}
		return form
	}
	basic := map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("kubesphere:kubesphere"))}
	wrongBasic := map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("kubesphere:wrong"))}
	noBasic := map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("nobody:x"))}
	for name, test := range map[string]struct {
		form   url.Values
		header map[string]string
		want   wants
	}{
		"unknown client":            {with(consoleLogin("alice", password), "client_id", "nobody"), nil, wants{400, "invalid_client"}},
		"no client":                 {with(consoleLogin("alice", password), "client_id", ""), nil, wants{400, "invalid_client"}},
		"wrong secret":              {with(consoleLogin("alice", password), "client_secret", "wrong"), nil, wants{401, "unauthorized_client"}},
		"no secret":                 {with(consoleLogin("alice", password), "client_secret", ""), nil, wants{401, "invalid_client"}},
		"secret of a public client": {with(renewal(refresh), "client_id", "cli", "client_secret", "x"), nil, wants{401, "unauthorized_client"}},
		"wrong secret by Basic":     {with(consoleLogin("alice", password), "client_id", "", "client_secret", ""), wrongBasic, wants{401, "invalid_client"}},
		"unknown client by Basic":   {with(consoleLogin("alice", password), "client_id", "", "client_secret", ""), noBasic, wants{401, "invalid_client"}},
		"broken Basic": {with(consoleLogin("alice", password), "client_id", "", "client_secret", ""),
			map[string]string{"Authorization": "Basic %%"}, wants{401, "invalid_client"}},
		"Basic and secret in the form": {consoleLogin("alice", password), basic, wants{400, "invalid_request"}},
		"Basic and another client":     {with(consoleLogin("alice", password), "client_id", "harbor", "client_secret", ""), basic, wants{400, "invalid_request"}},
		"no grant_type":                {with(consoleLogin("alice", password), "grant_type", ""), nil, wants{400, "invalid_request"}},
		"unknown grant_type":           {with(consoleLogin("alice", password), "grant_type", "magic"), nil, wants{400, "unsupported_grant_type"}},
		"implicit grant":               {with(consoleLogin("alice", password), "grant_type", "implicit"), nil, wants{400, "unsupported_grant_type"}},
		"client that is not trusted": {with(consoleLogin("alice", password), "client_id", "harbor", "client_secret", "harbor-secret-1234"), nil,
			wants{400, "unsupported_grant_type"}},
		"public client": {with(consoleLogin("alice", password), "client_id", "cli", "client_secret", ""), nil,
			wants{400, "unsupported_grant_type"}},
		"no password":                     {with(consoleLogin("alice", password), "password", ""), nil, wants{400, "invalid_request"}},
		"wrong password":                  {consoleLogin("alice", "wrong"), nil, wants{400, "invalid_grant"}},
		"no such user":                    {consoleLogin("nobody", password), nil, wants{400, "invalid_grant"}},
		"disabled":                        {consoleLogin("disabled", password), nil, wants{400, "invalid_grant"}},
		"password that is not hashed yet": {consoleLogin("pending", password), nil, wants{400, "invalid_grant"}},
		"locked":                          {consoleLogin("locked", password), nil, wants{429, "invalid_grant"}},
		"locked, wrong password":          {consoleLogin("locked", "wrong"), nil, wants{400, "invalid_grant"}},
		"parameter twice":                 {url.Values{"grant_type": {"password", "password"}, "client_id": {"kubesphere"}}, nil, wants{400, "invalid_request"}},
		"unknown parameter twice":         {with(url.Values{"x": {"1", "2"}}, "grant_type", "password"), nil, wants{400, "invalid_request"}},
		"no scope that exists":            {with(consoleLogin("alice", password), "scope", "admin root"), nil, wants{400, "invalid_scope"}},
		"scope with quotes":               {with(consoleLogin("alice", password), "scope", `openid "x"`), nil, wants{400, "invalid_scope"}},
		"no refresh token":                {renewal(""), nil, wants{400, "invalid_request"}},
		"access token as refresh token":   {renewal(access), nil, wants{400, "invalid_grant"}},
		"garbage as refresh token":        {renewal(strings.Repeat(".", 1000)), nil, wants{400, "invalid_grant"}},
		"refresh token of another client": {with(renewal(refresh), "client_id", "harbor", "client_secret", "harbor-secret-1234"), nil, wants{400, "invalid_grant"}},
		"refresh that widens the scope":   {with(renewal(refresh), "scope", "openid"), nil, wants{400, "invalid_scope"}},
		"refresh token as access token": {with(consoleLogin("alice", "wrong"), "x", "y"), map[string]string{"Authorization": "Bearer " + refresh},
			wants{400, "invalid_grant"}},
		"wrong password, good bearer sent": {consoleLogin("alice", "wrong"), map[string]string{"Authorization": "Bearer " + access}, wants{400, "invalid_grant"}},
	} {
		t.Run(name, func(t *testing.T) { test.want.check(t, f.servers[0].post(t, test.form, test.header)) })
	}
	if f.written() != before {
		t.Error("a refusal has written something (S58)")
	}
	if f.servers[0].userinfo(t, access).code != http.StatusOK {
		t.Error("a refusal has ended a session")
	}
}

// S50: the responses for unknown, wrong and disabled are the same.
func TestFailedLoginsReadTheSame(t *testing.T) {
	f := newReplicas(t, 1, nil)
	_, hash := stand()
	f.user("disabled", hash, iamapi.UserDisabled)
	want := f.servers[0].post(t, consoleLogin("nobody", "wrong"), nil)
	for _, name := range []string{"alice", "disabled", "alice@example.com", "nobody@example.com"} {
		if got := f.servers[0].post(t, consoleLogin(name, "wrong"), nil); got.code != want.code || got.text != want.text {
			t.Errorf("%s: %d %s, want %d %s", name, got.code, got.text, want.code, want.text)
		}
	}
	if want.str("error_description") != "Invalid username or password." {
		t.Error(want.text)
	}
	if r := f.servers[0].post(t, consoleLogin("disabled", password), nil); r.str("error_description") != "Account suspended." {
		t.Error(r.text)
	}
}

// T6749-2, T6749-4, T6749-9: the forms of valid requests.
func TestTokenEndpointTakesAFormByPostOnly(t *testing.T) {
	f := newReplicas(t, 1, nil)
	address := f.servers[0].URL + "/oauth/token"
	form := consoleLogin("alice", password).Encode()
	for name, test := range map[string]struct {
		r    *http.Request
		want wants
	}{
		"JSON": {request(t, http.MethodPost, address, `{"grant_type":"password"}`, map[string]string{"Content-Type": "application/json"}),
			wants{415, "invalid_request"}},
		"no type": {request(t, http.MethodPost, address, form, map[string]string{"Content-Type": ""}), wants{415, "invalid_request"}},
		"multipart": {request(t, http.MethodPost, address, form, map[string]string{"Content-Type": "multipart/form-data; boundary=x"}),
			wants{415, "invalid_request"}},
		"compressed":          {request(t, http.MethodPost, address, form, map[string]string{"Content-Encoding": "gzip"}), wants{415, "invalid_request"}},
		"secret in URL":       {request(t, http.MethodPost, address+"?client_secret=kubesphere", form, nil), wants{400, "invalid_request"}},
		"password there, too": {request(t, http.MethodPost, address+"?password=x", form, nil), wants{400, "invalid_request"}},
		"too long":            {request(t, http.MethodPost, address, form+"&x="+strings.Repeat("x", protocol.MaxBody), nil), wants{413, "invalid_request"}},
		"semicolons":          {request(t, http.MethodPost, address, "a=b;c=d", nil), wants{400, "invalid_request"}},
		"broken escape":       {request(t, http.MethodPost, address, "password=%zz", nil), wants{400, "invalid_request"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := do(t, test.r)
			test.want.check(t, r)
			if strings.Contains(r.text, "zz") || strings.Contains(r.text, password) {
				t.Errorf("the answer quotes the body: %s", r.text)
			}
		})
	}
	if r := do(t, request(t, http.MethodGet, address, "", nil)); r.code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", r.code)
	}
	r := do(
		t,
		request(
			t,
			http.MethodPost,
			address+"?unknown=1",
			form+"&unknown=1&client=",
			map[string]string{"Content-Type": "application/x-www-form-urlencoded; charset=UTF-8"},
		),
	)
	if r.code != http.StatusOK {
		t.Errorf("unknown and empty parameters: %d %s", r.code, r.text)
	}
}

// T6749-1: HTTP Basic, both parts form-encoded.
func TestClientAuthenticatesByBasic(t *testing.T) {
	f := newReplicas(t, 1, nil)
	form := url.Values{"grant_type": {"password"}, "username": {"alice"}, "password": {password}}
	pair := url.QueryEscape("od:d +c") + ":" + url.QueryEscape("s:e %c+r")
	if !strings.Contains(pair, "%3A") || !strings.Contains(pair, "+") {
		t.Fatal(pair)
	}
	header := map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte(pair))}
	if r := f.servers[0].post(t, form, header); r.code != http.StatusOK {
		t.Errorf("%d %s", r.code, r.text)
	}
	form.Set("client_id", "od:d +c") // the same name again is no second client authentication
	if r := f.servers[0].post(t, form, header); r.code != http.StatusOK {
		t.Errorf("%d %s", r.code, r.text)
	}
}

// The console also sends its refresh token as a bearer token: that one is not checked.
func TestBearerHeaderAtTheTokenEndpointIsIgnored(t *testing.T) {
	f := newReplicas(t, 1, nil)
	_, refresh := f.servers[0].login(t)
	r := f.servers[0].post(t, renewal(refresh), map[string]string{"Authorization": "Bearer " + refresh})
	if r.code != http.StatusOK || r.str("refresh_token") == refresh || r.body["expires_in"] == nil {
		t.Errorf("%d %s", r.code, r.text)
	}
	uncached(t, r)
}

// T6749-2: a flood of wrong secrets is limited, but refuses no client with the right one, at this client or another: otherwise anyone who
// can reach the console's address could block all logins and refreshes.
func TestGuessingASecretIsLimited(t *testing.T) {
	f := newReplicas(t, 1, nil)
	form := renewal("x")
	form.Set("client_id", "harbor")
	for range ratelimit.FailuresAtOnce {
		if r := f.servers[0].post(t, form, nil); r.code != http.StatusUnauthorized {
			t.Fatalf("%d %s", r.code, r.text)
		}
	}
	if r := f.servers[0].post(t, form, nil); r.code != http.StatusTooManyRequests || r.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", r.code, r.text)
	}
	right := with(form, "client_secret", "harbor-secret-1234")
	if r := f.servers[0].post(t, right, nil); r.str("error") != "invalid_grant" {
		t.Errorf("the right secret: %d %s", r.code, r.text)
	}
	f.servers[0].login(t)
	if r := f.servers[0].post(t, form, nil); r.code != http.StatusTooManyRequests {
		t.Errorf("a right one has wrong ones forgotten: %d %s", r.code, r.text)
	}
	f.clock.Step(time.Second)
	if r := f.servers[0].post(t, form, nil); r.code != http.StatusUnauthorized {
		t.Errorf("a second later: %d %s", r.code, r.text)
	}
}

// T6749-2: a flood of wrong secrets for the console, from its own address, blocks no login or refresh.
func TestGuessingTheConsolesSecretStopsNobody(t *testing.T) {
	f := newReplicas(t, 1, nil)
	_, refresh := f.servers[0].login(t)
	for range ratelimit.FailuresAtOnce + 1 {
		f.servers[0].post(t, with(renewal(refresh), "client_secret", "wrong"), nil)
	}
	if r := f.servers[0].post(t, with(renewal(refresh), "client_secret", "wrong"), nil); r.code != http.StatusTooManyRequests {
		t.Fatalf("%d %s", r.code, r.text)
	}
	if r := f.servers[0].post(t, renewal(refresh), nil); r.code != http.StatusOK {
		t.Errorf("a refresh: %d %s", r.code, r.text)
	}
	f.servers[0].login(t)
}

// T6749-2: an attacker at the address of a shared proxy does not lock out its other users, nor the console's server.
func TestGuessingASecretStopsNobodyBehindTheSameProxy(t *testing.T) {
	f := newReplicas(t, 1, func(s *settings) {
		s.edit = func(o *Options) {
			o.Origin = func(r *http.Request) iam.Origin { return iam.Origin{Source: r.Header.Get("X-Client-Ip")} }
		}
	})
	form := renewal("x")
	form.Set("client_id", "harbor")
	for range ratelimit.FailuresAtOnce + 1 {
		f.servers[0].post(t, form, map[string]string{"X-Client-Ip": "203.0.113.66"})
	}
	if r := f.servers[0].post(t, form, map[string]string{"X-Client-Ip": "203.0.113.66"}); r.code != http.StatusTooManyRequests {
		t.Errorf("who guesses: %d %s", r.code, r.text)
	}
	if r := f.servers[0].post(t, form, map[string]string{"X-Client-Ip": "192.0.2.10"}); r.code != http.StatusUnauthorized {
		t.Errorf("somebody else who is wrong: %d %s", r.code, r.text)
	}
}

// T6749-10, T6749-22, TCore-1, TCore-9, TCore-11: scopes.
func TestScopes(t *testing.T) {
	f := newReplicas(t, 1, nil)
	form := consoleLogin("alice", password)
	form.Set("scope", "openid email unknown")
	r := f.servers[0].post(t, form, nil)
	if r.code != http.StatusOK || r.str("scope") != "openid email" || r.str("id_token") == "" {
		t.Fatalf("%d %s", r.code, r.text)
	}
	id, err := f.servers[0].verifier.Identity(r.str("id_token"))
	if err != nil || id.Subject != "uid-alice" || id.Client != "kubesphere" || id.Email != "alice@example.com" || id.Username != "" ||
		!id.Authenticated.Equal(startTime()) {
		t.Errorf("%+v, %v", id, err)
	}
	if info := f.servers[0].userinfo(t, r.str("access_token")); info.str("sub") != id.Subject || info.str("email") != id.Email ||
		info.body["preferred_username"] != nil {
		t.Errorf("userinfo %s", info.text)
	}
	f.clock.Step(time.Minute)
	narrow := renewal(r.str("refresh_token"))
	narrow.Set("scope", "openid")
	n := f.servers[0].post(t, narrow, nil)
	if n.str("scope") != "openid" {
		t.Errorf("%d %s", n.code, n.text)
	}
	full := f.servers[0].post(t, renewal(n.str("refresh_token")), nil)
	if full.str("scope") != "openid email" {
		t.Errorf("the rotated token lost its scope: %s", full.text)
	}
	again, err := f.servers[0].verifier.Identity(full.str("id_token"))
	if err != nil || again.Subject != id.Subject || again.Client != id.Client || !again.Authenticated.Equal(id.Authenticated) || !again.Issued.After(id.Issued) {
		t.Errorf("%+v, %v", again, err)
	}
	restricted := url.Values{
		"grant_type":    {"password"},
		"username":      {"alice"},
		"password":      {password},
		"client_id":     {"od:d +c"},
		"client_secret": {"s:e %c+r"},
		"scope":         {"openid email"},
	}
	if r := f.servers[0].post(t, restricted, nil); r.str("scope") != "openid" {
		t.Errorf("a restricted client got %s", r.text)
	}
}

// T9700-9, U29: two replicas, fifty refreshes at once with one token: all succeed and stay usable.
func TestParallelRefreshesOnTwoReplicas(t *testing.T) {
	f := newReplicas(t, 2, nil)
	_, refresh := f.servers[0].login(t)
	replies := make([]reply, 50)
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() { replies[i] = f.servers[i%2].post(t, renewal(refresh), nil) })
	}
	wg.Wait()
	for i, r := range replies {
		if r.code != http.StatusOK || r.str("refresh_token") != replies[0].str("refresh_token") {
			t.Errorf("%d %s", r.code, r.text)
		}
		if f.servers[(i+1)%2].userinfo(t, r.str("access_token")).code != http.StatusOK {
			t.Error("an access token is refused on the other replica")
		}
	}
	f.clock.Step(time.Minute)
	if r := f.servers[1].post(t, renewal(replies[7].str("refresh_token")), nil); r.code != http.StatusOK {
		t.Errorf("%d %s", r.code, r.text)
	}
	// Reuse, long after: all tokens of the session are invalid on both replicas.
	f.clock.Step(time.Minute)
	wants{400, "invalid_grant"}.check(t, f.servers[0].post(t, renewal(refresh), nil))
	for _, s := range f.servers {
		if s.userinfo(t, replies[0].str("access_token")).code != http.StatusUnauthorized {
			t.Error("an access token outlived the reuse")
		}
	}
}

// S34: accessTokenMaxAge 0: as long as its session, and not longer.
func TestTokenWithoutMaxAgeDiesWithItsSession(t *testing.T) {
	f := newReplicas(t, 2, func(s *settings) { s.life = session.Lifetime{} })
	r := f.servers[0].post(t, consoleLogin("alice", password), nil)
	if n, _ := r.body["expires_in"].(float64); n < 86400 {
		t.Errorf("expires_in %v", r.body["expires_in"])
	}
	access := r.str("access_token")
	f.clock.Step(30 * 24 * time.Hour)
	if f.servers[1].userinfo(t, access).code != http.StatusOK {
		t.Error("refused after a month")
	}
	_, hash := stand()
	f.user("alice", hash, iamapi.UserDisabled)
	if f.servers[1].userinfo(t, access).code != http.StatusUnauthorized {
		t.Error("good after the user was disabled")
	}
}

func TestClientsOwnLifetimeCounts(t *testing.T) {
	f := newReplicas(t, 1, nil)
	form := url.Values{"grant_type": {"password"}, "username": {"alice"}, "password": {password}, "client_id": {"short"}, "client_secret": {"short"}}
	r := f.servers[0].post(t, form, nil)
	if r.body["expires_in"] != float64(300) {
		t.Errorf("%s", r.text)
	}
	f.clock.Step(361 * time.Second)
	form = renewal(r.str("refresh_token"))
	form.Set("client_id", "short")
	form.Set("client_secret", "short")
	wants{400, "invalid_grant"}.check(t, f.servers[0].post(t, form, nil))
}

// expires_in is never so short that the console would refresh at each call.
func TestSessionNearItsEndIsNotRefreshed(t *testing.T) {
	f := newReplicas(t, 1, func(s *settings) { s.life.Absolute = 90 * time.Minute })
	_, refresh := f.servers[0].login(t)
	f.clock.Step(79 * time.Minute)
	r := f.servers[0].post(t, renewal(refresh), nil)
	if r.body["expires_in"] != float64(660) {
		t.Errorf("%d %s", r.code, r.text)
	}
	f.clock.Step(2 * time.Minute)
	wants{400, "invalid_grant"}.check(t, f.servers[0].post(t, renewal(r.str("refresh_token")), nil))
}

// U26: kube-apiserver being down is not reported as a wrong password or an invalid token.
func TestClusterThatIsDownIsUnavailable(t *testing.T) {
	f := newReplicas(t, 1, nil)
	access, refresh := f.servers[0].login(t)
	f.setDown(true)
	wants{503, "temporarily_unavailable"}.check(t, f.servers[0].post(t, consoleLogin("alice", password), nil))
	wants{503, "temporarily_unavailable"}.check(t, f.servers[0].post(t, renewal(refresh), nil))
	wants{400, "invalid_grant"}.check(t, f.servers[0].post(t, consoleLogin("alice", "wrong"), nil))
	if f.servers[0].userinfo(t, access).code != http.StatusOK {
		t.Error("a known session needs no cluster")
	}
	f.setDown(false)
	if r := f.servers[0].post(t, renewal(refresh), nil); r.code != http.StatusOK {
		t.Errorf("%d %s", r.code, r.text)
	}
}

// TCore-9, T9068-3, S32, U28, T6750-1, T6750-3, T6750-4.
func TestUserinfoRefuses(t *testing.T) {
	f := newReplicas(t, 1, nil)
	form := consoleLogin("alice", password)
	form.Set("scope", "openid")
	r := f.servers[0].post(t, form, nil)
	form.Set("scope", "email")
	mail := f.servers[0].post(t, form, nil).str("access_token")
	address := f.servers[0].URL + "/oauth/userinfo"
	alien := &token.Issuer{Keys: f.servers[0].tokens.Keys, URL: issuerURL, Audience: "kapis:member", Now: f.clock.Now}
	member, _ := alien.Access(
		&token.Access{Subject: "uid-alice", Username: "alice", Client: "kubesphere", Session: f.names()[0], Issued: startTime(), Expires: startTime().Add(time.Hour)},
	)
	for name, test := range map[string]struct {
		query, header string
		code          int
		challenge     string
	}{
		"no token":                   {"", "", 401, `Bearer`},
		"token in the query":         {"?access_token=" + mail, "", 401, `Bearer`},
		"header and query":           {"?access_token=" + mail, "Bearer " + mail, 400, `Bearer error="invalid_request"`},
		"garbage":                    {"", "Bearer x", 401, `Bearer error="invalid_token"`},
		"empty":                      {"", "Bearer ", 401, `Bearer error="invalid_token"`},
		"basic":                      {"", "Basic eDp5", 401, `Bearer error="invalid_token"`},
		"ID token":                   {"", "Bearer " + r.str("id_token"), 401, `Bearer error="invalid_token"`},
		"refresh token":              {"", "Bearer " + r.str("refresh_token"), 401, `Bearer error="invalid_token"`},
		"another cluster's audience": {"", "Bearer " + member, 401, `Bearer error="invalid_token"`},
		"scope without openid":       {"", "Bearer " + mail, 403, `Bearer error="insufficient_scope", scope="openid"`},
	} {
		t.Run(name, func(t *testing.T) {
			header := map[string]string{}
			if test.header != "" {
				header["Authorization"] = test.header
			}
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				got := do(t, request(t, method, address+test.query, "", header))
				uncached(t, got)
				if got.code != test.code || got.header.Get("WWW-Authenticate") != test.challenge {
					t.Errorf("%s: %d, %q", method, got.code, got.header.Get("WWW-Authenticate"))
				}
			}
		})
	}
	good := do(t, request(t, http.MethodPost, address, "", map[string]string{"Authorization": "Bearer " + r.str("access_token")}))
	if good.code != http.StatusOK || good.str("sub") != "uid-alice" || good.body["email"] != nil {
		t.Errorf("%d %s", good.code, good.text)
	}
	twice := do(t, request(t, http.MethodPost, address, url.Values{"access_token": {mail}}.Encode(), map[string]string{
		"Authorization": "Bearer " + r.str("access_token"), "Content-Type": "application/x-www-form-urlencoded"}))
	if twice.code != http.StatusBadRequest || twice.header.Get("WWW-Authenticate") != `Bearer error="invalid_request"` {
		t.Errorf("header and body: %d %s", twice.code, twice.text)
	}
}
