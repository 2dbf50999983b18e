package oauth

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/token"
)

// newConsoleFront returns replicas whose users log in at the console.
func newConsoleFront(t *testing.T) (*replicas, *server) {
	t.Helper()
	f := newReplicas(t, 1, func(set *settings) {
		set.edit = func(o *Options) { o.Console, o.Origins = issuerURL, []string{"https://ks.example"} }
	})
	f.edit("alice", func(*iamapi.User) {}) // she has set a password
	return f, f.servers[0]
}

// asConsole sends an authorization request as the console passes it on: with the access token of its session, and no cookies.
func (s *server) asConsole(t testing.TB, access string, q url.Values) reply {
	t.Helper()
	header := map[string]string{}
	if access != "" {
		header["Authorization"] = "Bearer " + access
	}
	return do(t, request(t, http.MethodGet, s.URL+"/oauth/authorize?"+q.Encode(), "", header))
}

// leads fails the test unless the answer is a redirect to the address, without a cookie.
func (r reply) leads(t testing.TB, to string) {
	t.Helper()
	if r.code != http.StatusFound || r.header.Get("Location") != to || r.header.Values("Set-Cookie") != nil || r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v, want 302 to %s without a cookie: %s", r.code, r.header, to, r.text)
	}
}

// The login of the console's session counts, and what it opens ends with it.
func TestTheLoginAtTheConsoleCountsForClients(t *testing.T) {
	_, s := newConsoleFront(t)
	access, refresh := s.login(t)
	got := s.asConsole(t, access, harborAsks("scope", "openid profile offline_access")).sentTo(t, harborURI)
	if got.Get("code") == "" || got.Get("state") != "s" {
		t.Fatalf("%v", got)
	}
	tokens := s.redeem(t, got.Get("code"), nil)
	if tokens.code != http.StatusOK || strings.Contains(tokens.str("scope"), "offline_access") {
		t.Fatalf("%d %s", tokens.code, tokens.text)
	}
	if r := s.userinfo(t, tokens.str("access_token")); r.code != http.StatusOK || r.str("sub") != "uid-alice" {
		t.Fatalf("%d %s", r.code, r.text)
	}
	// The client's own session, although a login of alice's, opens no other.
	s.asConsole(t, tokens.str("access_token"), harborAsks()).leads(t, issuerURL)
	if q := s.asConsole(t, access, harborAsks("prompt", "none")).sentTo(t, harborURI); q.Get("code") == "" {
		t.Errorf("prompt=none: %v", q)
	}

	if err := s.sessions.EndAll(t.Context(), "uid-alice", "", "logout"); err != nil {
		t.Fatal(err)
	}
	if r := s.userinfo(t, tokens.str("access_token")); r.code != http.StatusUnauthorized {
		t.Errorf("after the logout at the console the client's token is good: %d", r.code)
	}
	for name, one := range map[string]url.Values{
		"the console's": renewal(refresh),
		"the client's": {"grant_type": {"refresh_token"}, "refresh_token": {tokens.str("refresh_token")}, "client_id": {"harbor"},
			"client_secret": {"harbor-secret-1234"}},
	} {
		if r := s.post(t, one, nil); r.code != http.StatusBadRequest {
			t.Errorf("%s refresh token is good: %d %s", name, r.code, r.text)
		}
	}
}

// The logout at the console ends what was opened in its session, and nothing else of the user.
func TestALogoutAtTheConsoleEndsWhatItOpened(t *testing.T) {
	_, s := newConsoleFront(t)
	access, _ := s.login(t)
	other, _ := s.login(t)
	tokens := s.redeem(t, s.asConsole(t, access, harborAsks()).sentTo(t, harborURI).Get("code"), nil)
	if tokens.code != http.StatusOK {
		t.Fatalf("%d %s", tokens.code, tokens.text)
	}
	if r := do(t, request(t, http.MethodGet, s.URL+"/oauth/logout", "", map[string]string{"Authorization": "Bearer " + access})); r.code >= 400 {
		t.Fatalf("%d %s", r.code, r.text)
	}
	if r := s.userinfo(t, tokens.str("access_token")); r.code != http.StatusUnauthorized {
		t.Errorf("the client's token: %d", r.code)
	}
	if q := s.asConsole(t, other, harborAsks()).sentTo(t, harborURI); q.Get("code") == "" {
		t.Errorf("another login: %v", q)
	}
}

// The console asks the anonymous to log in, and this server sets no cookie beside its own. The address is the issuer's,
// whatever the request says.
func TestTheAnonymousAreSentToTheConsole(t *testing.T) {
	_, s := newConsoleFront(t)
	for name, q := range map[string]url.Values{"plain": harborAsks(), "login": harborAsks("prompt", "login"), "max_age": harborAsks("max_age", "0"),
		"select": harborAsks("prompt", "select_account"), "public": spaAsks(), "consent": argoAsks("prompt", "consent")} {
		t.Run(name, func(t *testing.T) { s.asConsole(t, "", q).leads(t, issuerURL) })
	}
	if q := s.asConsole(t, "", harborAsks("prompt", "none")).sentTo(t, harborURI); q.Get("error") != "login_required" {
		t.Errorf("prompt=none: %v", q)
	}
	r := request(t, http.MethodGet, s.URL+"/oauth/authorize?"+harborAsks("redirect", "https://evil.example", "referer", "https://evil.example").Encode(), "",
		map[string]string{"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http", "Forwarded": "host=evil.example", "Referer": "https://evil.example/"})
	r.Host = "evil.example"
	do(t, r).leads(t, issuerURL)
	for name, q := range map[string]url.Values{"unknown client": harborAsks("client_id", "x"), "foreign URI": harborAsks("redirect_uri", "https://evil.example/cb")} {
		if r := s.asConsole(t, "", q); r.code != http.StatusBadRequest || r.header.Get("Location") != "" || r.header.Values("Set-Cookie") != nil {
			t.Errorf("%s: %d %v", name, r.code, r.header)
		}
	}
	own := newReplicas(t, 1, nil).servers[0]
	if r := own.asConsole(t, "", harborAsks()); r.code != http.StatusOK || len(r.header.Values("Set-Cookie")) != 1 {
		t.Errorf("without a console the login page asks: %d %v", r.code, r.header)
	}
}

// Only a login of a person at a trusted client, that is valid now, counts: a token of anything else is that of nobody.
func TestOnlyALoginAtATrustedClientOpensOthers(t *testing.T) {
	f, s := newConsoleFront(t)
	_, hash := stand()
	open := func(l session.Login) string {
		t.Helper()
		l.User = s.users.ByName("alice")
		sess, _, err := s.sessions.Open(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		return s.tokenOf(t, sess, "")
	}
	good := session.Login{Client: "kubesphere"}
	s.asConsole(t, open(good), harborAsks()).sentTo(t, harborURI+"&code=")
	browsers := s.browser(t, "alice")
	ended := open(good)
	f.user("carol", hash, iamapi.UserActive)
	f.edit("carol", func(*iamapi.User) {})
	carol := s.post(t, consoleLogin("carol", password), nil).str("access_token")
	f.edit("carol", func(u *iamapi.User) { u.Status.State = iamapi.UserDisabled })
	own, _, err := s.sessions.Open(t.Context(), session.Login{Client: "kubesphere", NoRefresh: true})
	if err != nil {
		t.Fatal(err)
	}
	tokens := map[string]string{
		"a client that is not trusted":    open(session.Login{Client: "harbor"}),
		"a client that is gone":           open(session.Login{Client: "gone"}),
		"a session of a browser":          open(session.Login{}),
		"opened in a browser":             open(session.Login{Client: "kubesphere", Parent: browsers}),
		"another audience":                s.forAudience(t, open, good, "kapis:member"),
		"the userinfo endpoint":           s.forAudience(t, open, good, token.UserInfo(issuerURL)),
		"a disabled user":                 carol,
		"a client that acts for itself":   s.tokenOf(t, own, ""),
		"an API key":                      "ksk_0123456789abcdefghijklmnopqrstuvwxyz",
		"no token":                        "x.y.z",
		"a token with a changed ending":   ended[:len(ended)-4] + "AAAA",
		"a token that somebody cut short": ended[:len(ended)/2],
	}
	for name, access := range tokens {
		t.Run(name, func(t *testing.T) {
			if access == "" {
				t.Fatal("there is no token to try")
			}
			s.asConsole(t, access, harborAsks()).leads(t, issuerURL)
			if q := s.asConsole(t, access, harborAsks("prompt", "none")).sentTo(t, harborURI); q.Get("error") != "login_required" || q.Get("code") != "" {
				t.Errorf("prompt=none: %v", q)
			}
		})
	}
	for name, header := range map[string]string{"Basic": "Basic YWxpY2U6UEA4OHcwcmQ=", "empty": "Bearer", "two": "Bearer " + ended + " x"} {
		r := request(t, http.MethodGet, s.URL+"/oauth/authorize?"+harborAsks().Encode(), "", map[string]string{"Authorization": header})
		t.Run(name, func(t *testing.T) { do(t, r).leads(t, issuerURL) })
	}
	inQuery := do(t, request(t, http.MethodGet, s.URL+"/oauth/authorize?"+harborAsks("access_token", ended).Encode(), "", nil)) // T6750-2
	inQuery.leads(t, issuerURL)
	f.clock.Step(24 * time.Hour)
	s.asConsole(t, ended, harborAsks()).leads(t, issuerURL)
}

// tokenOf returns an access token of a session.
func (s *server) tokenOf(t testing.TB, sess *session.Session, audience string) string {
	t.Helper()
	now := s.oauth.Now()
	out, err := s.tokens.Access(&token.Access{Subject: sess.UserUID, Username: sess.User, Client: sess.Client, Session: sess.Name, Audience: audience,
		Expires: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *server) forAudience(t testing.TB, open func(session.Login) string, l session.Login, audience string) string {
	t.Helper()
	a, err := s.verifier.Access(open(l))
	if err != nil {
		t.Fatal(err)
	}
	sess, _, err := s.sessions.Find(t.Context(), a.Session)
	if err != nil {
		t.Fatal(err)
	}
	return s.tokenOf(t, sess, audience)
}

// TCore-4: prompt and max_age hold for a login at the console too. It can't be repeated from here, so the client is told; a login of this
// minute is the one that the request has caused.
func TestPromptHoldsForALoginAtTheConsole(t *testing.T) {
	f, s := newConsoleFront(t)
	access, _ := s.login(t)
	ask := func(pairs ...string) url.Values {
		t.Helper()
		return s.asConsole(t, access, harborAsks(pairs...)).sentTo(t, harborURI)
	}
	for _, pairs := range [][]string{{"prompt", "login"}, {"max_age", "0"}, {"prompt", "select_account"}, {"max_age", "60"}} {
		if q := ask(pairs...); q.Get("code") == "" {
			t.Errorf("%v after a login just now: %v", pairs, q)
		}
	}
	f.clock.Step(2 * time.Minute)
	for _, test := range [][3]string{{"prompt", "login", "login_required"}, {"max_age", "0", "login_required"}, {"max_age", "60", "login_required"},
		{"prompt", "select_account", "account_selection_required"}, {"max_age", "3600", ""}, {"prompt", "none", ""}} {
		if q := ask(test[0], test[1]); q.Get("error") != test[2] || (q.Get("code") == "") != (test[2] != "") {
			t.Errorf("%s=%s: %v", test[0], test[1], q)
		}
	}
	if q := ask("prompt", "none", "max_age", "60"); q.Get("error") != "login_required" {
		t.Errorf("prompt=none with an old login: %v", q)
	}
}

// S38, S42, T6749-12: the consent is given with a token of the session that the page was made for, by a page of the console.
func TestConsentIsGivenThroughTheConsole(t *testing.T) {
	f, s := newConsoleFront(t)
	access, _ := s.login(t)
	again, _ := s.login(t)
	_, hash := stand()
	f.user("mallory", hash, iamapi.UserActive)
	f.edit("mallory", func(*iamapi.User) {})
	mallory := s.post(t, consoleLogin("mallory", password), nil).str("access_token")

	if q := s.asConsole(t, access, argoAsks("prompt", "none")).sentTo(t, argoURI); q.Get("error") != "consent_required" {
		t.Errorf("prompt=none: %v", q)
	}
	shown := s.asConsole(t, access, argoAsks())
	sealed := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(shown.text)
	if shown.code != http.StatusOK || sealed == nil || shown.header.Values("Set-Cookie") != nil || strings.Contains(shown.text, `value="switch"`) {
		t.Fatalf("%d %v %s", shown.code, shown.header, shown.text)
	}
	answer := func(say string, header map[string]string) reply {
		t.Helper()
		return do(t, request(t, http.MethodPost, s.URL+"/oauth/consent", url.Values{"form": {sealed[1]}, "answer": {say}}.Encode(), header))
	}
	const origin = "https://ks.example"
	for name, header := range map[string]map[string]string{
		"nobody":                   {"Origin": origin},
		"another user":             {"Origin": origin, "Authorization": "Bearer " + mallory},
		"another login":            {"Origin": origin, "Authorization": "Bearer " + again},
		"another site":             {"Origin": "https://evil.example", "Authorization": "Bearer " + access},
		"another site, by browser": {"Sec-Fetch-Site": "cross-site", "Origin": origin, "Authorization": "Bearer " + access},
		"a cookie alone":           {"Origin": origin, browserHeader: s.browser(t, "alice")},
	} {
		if r := answer("allow", header); r.code != http.StatusForbidden || r.header.Get("Location") != "" {
			t.Errorf("%s: %d %v", name, r.code, r.header)
		}
	}
	mine := map[string]string{"Origin": origin, "Authorization": "Bearer " + access}
	if r := answer("switch", mine); r.code != http.StatusBadRequest {
		t.Errorf("switch: %d", r.code)
	}
	if q := answer("deny", mine).sentTo(t, argoURI); q.Get("error") != "access_denied" {
		t.Errorf("deny: %v", q)
	}
	if q := answer("allow", mine).sentTo(t, argoURI); q.Get("code") == "" {
		t.Errorf("allow: %v", q)
	}
	if q := s.asConsole(t, access, argoAsks("prompt", "none")).sentTo(t, argoURI); q.Get("code") == "" {
		t.Errorf("the consent is remembered: %v", q)
	}
	if r := s.asConsole(t, again, argoAsks()); r.code != http.StatusOK {
		t.Errorf("in another session it is asked for: %d", r.code)
	}
	if r := s.asConsole(t, access, with(argoAsks(), "client_id", "native", "redirect_uri", "http://127.0.0.1:8000/cb", "scope", "openid",
		"code_challenge", challenge(), "code_challenge_method", "S256")); r.code != http.StatusOK {
		t.Errorf("a client on the user's machine is asked about each time: %d", r.code)
	}
}

// Someone who has not set a password of their own yet sets it first.
func TestAFirstPasswordIsSetBeforeClientsGetACode(t *testing.T) {
	f, s := newConsoleFront(t)
	f.edit("alice", func(u *iamapi.User) { u.Annotations = map[string]string{iamapi.AnnotationUninitialized: "true"} })
	access, _ := s.login(t)
	s.asConsole(t, access, harborAsks()).leads(t, issuerURL)
	if q := s.asConsole(t, access, harborAsks("prompt", "none")).sentTo(t, harborURI); q.Get("error") != "login_required" {
		t.Errorf("%v", q)
	}
}
