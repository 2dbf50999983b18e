package identity

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestRedirectURIsMatchExactly(t *testing.T) {
	rule(t, "T9700-1")
	b := here(t)
	exact := newClient(t, client{ID: "exact", Secret: random(), RedirectURIs: []string{"https://exact.example/cb", "https://exact.example:8443/deep/cb?x=1"}})
	local := newClient(
		t,
		client{
			ID:           "local",
			GrantMethod:  "auto",
			RedirectURIs: []string{"http://127.0.0.1/cb", "http://[::1]:9/cb", "http://localhost:80/cb?x=1", "com.example.local:/cb"},
		},
	)
	for _, uri := range exact.RedirectURIs {
		exact.ask("redirect_uri", uri).code(t, b)
	}
	for name, uri := range map[string]string{
		"Slash": "https://exact.example/cb/", "Path": "https://exact.example/cb/x", "ShorterPath": "https://exact.example/", "NoPath": "https://exact.example",
		"Dots":        "https://exact.example/x/../cb",
		"EncodedDots": "https://exact.example/%2e%2e/cb", "DoubleSlash": "https://exact.example//cb", "EncodedLetter": "https://exact.example/%63b",
		"Query":      "https://exact.example/cb?x=1",
		"EmptyQuery": "https://exact.example/cb?", "Fragment": "https://exact.example/cb#x", "EmptyFragment": "https://exact.example/cb#",
		"SchemeCase": "HTTPS://exact.example/cb",
		"HostCase":   "https://Exact.example/cb", "PathCase": "https://exact.example/CB", "DefaultPort": "https://exact.example:443/cb",
		"OtherPort": "https://exact.example:8443/cb", "EmptyPort": "https://exact.example:/cb",
		"HTTP": "http://exact.example/cb", "NoScheme": "//exact.example/cb", "User": "https://exact.example@evil.example/cb",
		"UserBefore": "https://evil.example@exact.example/cb",
		"Backslash":  `https://exact.example\@evil.example/cb`, "BackslashHost": `https://evil.example\.exact.example/cb`, "Subdomain": "https://a.exact.example/cb",
		"Suffix": "https://exact.example.evil.example/cb",
		"Prefix": "https://evil-exact.example/cb", "TrailingDot": "https://exact.example./cb", "Wildcard": "https://*.example/cb",
		"Space": "https://exact.example/cb ", "Newline": "https://exact.example/cb\n",
		"Nul": "https://exact.example/cb\x00", "Tab": "https://exact.exa\tmple/cb", "Semicolon": "https://exact.example/cb;x",
		"FullWidth": "https://exact．example/cb", "Two": "https://exact.example/cb,https://exact.example/cb",
		"OtherQuery": "https://exact.example:8443/deep/cb?x=2", "MoreQuery": "https://exact.example:8443/deep/cb?x=1&y=2",
		"Missing": "https://exact.example:8443/deep/cb",
	} {
		t.Run(name, func(t *testing.T) { refusedPage(t, b.open(t, exact.ask("redirect_uri", uri).address())) })
	}
	t.Run("OnlyALoopbackPortMayDiffer", func(t *testing.T) {
		for _, uri := range []string{"http://127.0.0.1/cb", "http://127.0.0.1:1/cb", "http://127.0.0.1:65535/cb", "http://[::1]:8080/cb", "http://[::1]/cb",
			"http://localhost:5000/cb?x=1", "com.example.local:/cb"} {
			q := local.ask("redirect_uri", uri)
			q.redeem(t, q.code(t, b)).tokens(t)
		}
		for _, uri := range []string{"http://127.0.0.1:1/cb/x", "http://127.0.0.1:1/CB", "http://127.0.0.1:1/cb?x=1", "http://127.0.0.2:1/cb",
			"http://localhost:1/cb", "https://127.0.0.1:1/cb", "http://127.0.0.1:/cb",
			"http://127.0.0.1:1@evil.example/cb", "http://127.0.0.1:x/cb", "http://127.0.0.1:123456/cb", "http://127.0.0.1:1#/cb", `http://127.0.0.1:1\@evil.example/cb`,
			"http://127.1:1/cb", "http://0.0.0.0:1/cb",
			"http://localhost.evil.example/cb?x=1", "http://localhost:1/cb", "com.example.local:/cb2", "com.example.local://cb", "com.example.other:/cb"} {
			refusedPage(t, b.open(t, local.ask("redirect_uri", uri).address()))
		}
	})
}

func TestPlainHTTPIsForLoopbackOnly(t *testing.T) {
	rule(t, "T9700-10")
	b := here(t)
	for _, secret := range []string{random(), ""} {
		c := newClient(
			t,
			client{ID: "plain", Secret: secret, GrantMethod: "auto", RedirectURIs: []string{
				"http://harbor.example/cb",
				"http://localhost.evil.example/cb",
				"http://127.0.0.1.evil.example/cb",
				"http://10.0.0.1/cb",
				"http://2130706433/cb",
				"http://0x7f.1/cb",
				"http://127.0.0.1@evil.example/cb",
				"http://[::ffff:127.0.0.1]/cb",
				"http://127.0.0.1:1/cb",
				"http://localhost/cb",
				"http://[::1]/cb",
			}},
		)
		for i, uri := range c.RedirectURIs {
			if i < 8 {
				storesNothing(t, func() { refusedPage(t, b.open(t, c.ask("redirect_uri", uri).address())) })
			} else {
				c.ask("redirect_uri", uri).code(t, b)
			}
		}
	}
	if !strings.HasPrefix(issuer, "https://") {
		t.Error("answers do not travel by TLS")
	}
}

func TestNobodyIsSentAnywhere(t *testing.T) {
	rule(t, "T9700-2")
	for who, b := range map[string]*browser{"LoggedIn": logIn(t, bob), "NotLoggedIn": newBrowser(t)} {
		for _, evil := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, `\\evil.example`, "https:evil.example", "%2f%2fevil.example",
			"https://harbor.example@evil.example/bye", "javascript:alert(1)",
			"https://harbor.example/bye/../x", "https://harbor.example/bye\r\nLocation: https://evil.example", "https://evil.example/https://harbor.example/bye"} {
			q := values(
				"redirect_uri",
				evil,
				"post_logout_redirect_uri",
				evil,
				"client_id",
				harbor.ID,
				"return_to",
				evil,
				"next",
				evil,
				"continue",
				evil,
				"rd",
				evil,
				"state",
				"x",
			).Encode()
			for _, path := range []string{"/oauth/logout", "/oauth/login", "/oauth/account", "/oauth/device", "/oauth/login/nobody", "/oauth/callback/nobody",
				"/oauth/authorize"} {
				if p := b.open(t, path+"?"+q); p.to != nil || p.status >= 500 {
					t.Errorf("%s: %s with %q: %d, sent to %v", who, path, evil, p.status, p.to)
				}
			}
		}
	}
}

func TestThePasswordGrantCanBeSwitchedOff(t *testing.T) {
	rule(t, "T9700-7")
	off := strict(t)
	storesNothing(t, func() {
		console.tokenAt(t, off, "grant_type", "password", "username", bob, "password", password).fails(t, 400, "unsupported_grant_type")
		console.tokenAt(t, off, "grant_type", "otp", "token", "x", "otp", "1").fails(t, 400, "unsupported_grant_type")
	})
	if grants := texts(document(t, off, openidDocument), "grant_types_supported"); slices.Contains(grants, "password") || slices.Contains(grants, "otp") ||
		len(grants) == 0 {
		t.Errorf("advertised %v", grants)
	}
	for _, c := range []client{harbor, portal} { // others' clients may not use it where it is on
		storesNothing(t, func() {
			c.token(t, "grant_type", "password", "username", bob, "password", password).fails(t, 400, "unsupported_grant_type")
			c.token(t, "grant_type", "otp", "token", "x", "otp", "1").fails(t, 400, "unsupported_grant_type")
		})
	}
	const used = `ks_oauth_token_requests_total{grant="password",result="ok"}`
	before := metric(t, issuer, used)
	passwordLogin(t, bob)
	if after := metric(t, issuer, used); after != before+1 {
		t.Errorf("its use is not counted: %v, then %v", before, after)
	}
}

// metric reads a figure of a server; 0 where there is none yet.
func metric(t *testing.T, base, name string) float64 {
	t.Helper()
	a := call(t, http.MethodGet, base+"/metrics", nil, bearer(admin(t))...).must(t, 200)
	lines := bufio.NewScanner(strings.NewReader(a.body))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

func TestAccessTokensHaveAnAudience(t *testing.T) {
	rule(t, "T9700-8")
	got := harbor.ask().tokens(t, here(t))
	_, access := claims(t, got.Access)
	_, id := claims(t, got.ID)
	aud, _ := access["aud"].([]any)
	if len(aud) != 1 || aud[0] == "" || aud[0] == harbor.ID {
		t.Errorf("the access token is for %v", access["aud"])
	}
	if forClient, _ := id["aud"].([]any); id["aud"] != harbor.ID && (len(forClient) != 1 || forClient[0] != harbor.ID) {
		t.Errorf("the ID token is for %v", id["aud"])
	}
	f := forge(t, got.Access)
	alive(t, f.token(t))
	for _, other := range []string{"kapis:member", harbor.ID, issuer, "https://kubernetes.default.svc"} {
		dead(t, f.token(t, "aud", other))
		deadAt(t, replica(t), f.token(t, "aud", []string{other}))
	}
	t.Run("AClientThatOnlyLogsPeopleIn", func(t *testing.T) {
		reader := newClient(t, client{ID: "reader", Secret: random(), ScopeRestrictions: []string{"openid", "profile"}}, replica(t))
		got := reader.ask("scope", "openid profile api").tokens(t, here(t))
		if _, access := claims(t, got.Access); got.Scope != "openid profile" || !slices.Equal(texts(access, "aud"), []string{issuer + "/oauth/userinfo"}) {
			t.Errorf("granted %q for %v", got.Scope, access["aud"])
		}
		for _, base := range []string{issuer, replica(t)} {
			call(t, http.MethodGet, base+"/oauth/userinfo", nil, bearer(got.Access)...).must(t, http.StatusOK)
			for _, path := range []string{me, "/api/v1/secrets", "/kapis/iam.kubesphere.io/v1beta1/users"} {
				call(t, http.MethodGet, base+path, nil, bearer(got.Access)...).must(t, http.StatusUnauthorized)
			}
		}
		if yes, _ := reviewed(t, got.Access); yes {
			t.Error("a kube-apiserver would take it")
		}
		writer := newClient(t, client{ID: "writer", Secret: random(), ScopeRestrictions: []string{"openid", "api"}})
		alive(t, writer.ask("scope", "openid").tokens(t, here(t)).Access)
	})
}

// family is a refresh token and its successors.
type family struct {
	client               client
	first, second, third tokens
}

// graceEnds bounds the time in which a rotated refresh token is good once more: 10 s.
const graceEnds = 25 * time.Second

func TestRefreshTokensRotate(t *testing.T) {
	rule(t, "T9700-9")
	other := replica(t)
	b := here(t)
	idle := newClient(t, client{ID: "idle", GrantMethod: "auto", MaxAge: 1, Inactivity: 1}, other)
	forgotten := idle.ask("scope", "openid offline_access").tokens(t, b)
	const alarm = `ks_session_refreshes_total{result="reused"}`
	alarms := metric(t, issuer, alarm)
	families := []*family{{client: desk}, {client: harbor}}
	for _, f := range families {
		f.first = f.client.ask().tokens(t, b)
		if f.second = f.client.refresh(t, f.first.Refresh).tokens(t); f.second.Refresh == f.first.Refresh || f.second.Access == f.first.Access {
			t.Fatal("the tokens are the same")
		}
		// The answer was lost: the client tries again, perhaps elsewhere, and gets the same successor.
		for _, base := range []string{issuer, other} {
			if again := f.client.tokenAt(t, base, "grant_type", "refresh_token", "refresh_token", f.first.Refresh).tokens(t); again.Refresh != f.second.Refresh {
				t.Errorf("%s gives %s another successor", base, f.client.ID)
			}
		}
	}
	for _, f := range families {
		within(t, graceEnds, "the successor is rotated", func(context.Context) error {
			if f.third = f.client.refresh(t, f.second.Refresh).tokens(t); f.third.Refresh == f.second.Refresh {
				return errors.New("it is the same still")
			}
			return nil
		})
		alive(t, f.third.Access)
	}
	if got := metric(t, issuer, alarm); got != alarms {
		t.Errorf("%v alarms without a thief", got-alarms)
	}
	for _, f := range families {
		t.Run("ReuseEndsThoseOf/"+f.client.ID, func(t *testing.T) {
			alarms := metric(t, issuer, alarm)
			storesNothing(t, func() { f.client.refresh(t, f.first.Refresh).fails(t, 400, "invalid_grant") }) // the thief, or the owner after the thief
			dead(t, f.third.Access)
			f.client.refresh(t, f.third.Refresh).fails(t, 400, "invalid_grant")
			f.client.tokenAt(t, other, "grant_type", "refresh_token", "refresh_token", f.third.Refresh).fails(t, 400, "invalid_grant")
			endsEverywhere(t, f.third.Access, other)
			if got := metric(t, issuer, alarm); got != alarms+1 {
				t.Errorf("%v alarms, want one", got-alarms)
			}
		})
	}
	harbor.ask().tokens(t, b)                            // the browser's session goes on
	t.Run("NobodyUsedItForTooLong", func(t *testing.T) { // for the time of the tests above
		idle.refresh(t, forgotten.Refresh).fails(t, 400, "invalid_grant")
	})
	t.Run("AChangedPasswordEndsThem", func(t *testing.T) {
		name := newUser(t, "changing")
		got := desk.ask("scope", "openid offline_access").tokens(t, logIn(t, name))
		patchUser(t, name, `{"spec":{"password":"Other-1234"}}`)
		endsEverywhere(t, got.Access, other)
		desk.refresh(t, got.Refresh).fails(t, 400, "invalid_grant")
	})
	t.Run("ALogoutEndsThem", func(t *testing.T) {
		leaving := logIn(t, bob)
		got := desk.ask().tokens(t, leaving)
		leaving.submit(t, leaving.open(t, "/oauth/logout").shows(t, 200, "Log out?"), "answer", "yes")
		endsEverywhere(t, got.Access, other)
		desk.refresh(t, got.Refresh).fails(t, 400, "invalid_grant")
	})
}

func TestAClientIsNoUser(t *testing.T) {
	rule(t, "T9700-15")
	for _, name := range []string{"admin", alice, uidOf(t, "admin"), uidOf(t, alice), "system:masters", "client:" + harbor.ID} {
		t.Run(name, func(t *testing.T) {
			c := client{ID: name, Secret: random()}
			if err := c.register(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.forget)
			got := c.token(t, "grant_type", "client_credentials").tokens(t)
			_, payload := claims(t, got.Access)
			if payload["sub"] != "client:"+name || payload["username"] != "client:"+name {
				t.Errorf("it is %v, called %v", payload["sub"], payload["username"])
			}
			a := get(t, "/api/v1/secrets", got.Access).is(t, 403)
			if !strings.Contains(a.body, `User \"client:`+name) {
				t.Errorf("%s", clip(a.body))
			}
			get(t, usersPath+"/"+alice, got.Access).is(t, 403)
			get(t, "/oauth/userinfo", got.Access).fails(t, 403, "insufficient_scope")
		})
	}
}
