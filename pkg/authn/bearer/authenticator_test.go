package bearer_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authn/bearer"
	"kapis.dev/ks-apiserver/pkg/token"
)

// only returns an authenticator that knows one token.
func only(good, name string) authenticator.Token {
	return authenticator.TokenFunc(func(_ context.Context, s string) (*authenticator.Response, bool, error) {
		if s == good {
			return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, true, nil
		}
		return nil, false, nil
	})
}

var errBad = errors.New("bad signature")

func failing() authenticator.Token {
	return authenticator.TokenFunc(func(context.Context, string) (*authenticator.Response, bool, error) { return nil, false, errBad })
}

// S54, T6750-1, U28: a token in the header is either good or an error, and never ignored.
func TestHeaderIsAGoodTokenOrAnError(t *testing.T) {
	a := &bearer.Authenticator{Tokens: []authenticator.Token{failing(), only("good", "alice"), only("other", "robot")}}
	for name, test := range map[string]struct {
		header []string
		user   string
		fails  bool
	}{
		"none":                   {nil, "", false},
		"good":                   {[]string{"Bearer good"}, "alice", false},
		"good for the next":      {[]string{"bearer other"}, "robot", false},
		"unknown":                {[]string{"Bearer unknown"}, "", true},
		"empty header":           {[]string{""}, "", true},
		"empty bearer":           {[]string{"Bearer"}, "", true},
		"empty bearer and space": {[]string{"Bearer "}, "", true},
		"two spaces":             {[]string{"Bearer  good"}, "", true},
		"tab":                    {[]string{"Bearer\tgood"}, "", true},
		"trailing space":         {[]string{"Bearer good "}, "", true},
		"two words":              {[]string{"Bearer good x"}, "", true},
		"comma":                  {[]string{"Bearer good,good"}, "", true},
		"quotes":                 {[]string{`Bearer "good"`}, "", true},
		"only padding":           {[]string{"Bearer ==="}, "", true},
		"padding inside":         {[]string{"Bearer go=od"}, "", true},
		"not ASCII":              {[]string{"Bearer gööd"}, "", true},
		"basic":                  {[]string{"Basic Z29vZDpnb29k"}, "", true},
		"basic, garbage":         {[]string{"Basic %%%"}, "", true},
		"no scheme":              {[]string{"good"}, "", true},
		"two headers":            {[]string{"Bearer good", "Bearer good"}, "", true},
		"too long":               {[]string{"Bearer " + strings.Repeat("g", bearer.MaxHeader)}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/kapis/x", nil)
			if test.header != nil {
				r.Header["Authorization"] = test.header
			}
			check(t, a, r, test.user, test.fails)
		})
	}
}

func check(t *testing.T, a *bearer.Authenticator, r *http.Request, name string, fails bool) {
	t.Helper()
	resp, ok, err := a.AuthenticateRequest(r)
	if (err != nil) != fails || ok != (name != "") {
		t.Fatalf("ok %v, error %v", ok, err)
	}
	if ok && resp.User.GetName() != name {
		t.Errorf("user %s", resp.User.GetName())
	}
	if err != nil && strings.Contains(err.Error(), "good") {
		t.Errorf("the error names the token: %v", err)
	}
}

func TestTokenInTheQueryIsNoCredential(t *testing.T) { // T6750-2
	a := &bearer.Authenticator{Tokens: []authenticator.Token{only("good", "alice")}}
	check(t, a, httptest.NewRequest(http.MethodGet, "/kapis/x?access_token=good", nil), "", false)
}

func TestErrorOfTheOneWhoKnowsTheTokenIsKept(t *testing.T) {
	a := &bearer.Authenticator{Tokens: []authenticator.Token{failing(), only("good", "alice")}}
	if _, _, err := a.AuthenticateToken(t.Context(), "x"); !errors.Is(err, errBad) {
		t.Errorf("got %v", err)
	}
}

// asked returns an authenticator that counts what it is asked about, and answers by a function.
func asked(n *int, answer func(s string) (bool, error)) authenticator.Token {
	return authenticator.TokenFunc(func(_ context.Context, s string) (*authenticator.Response, bool, error) {
		*n++
		ok, err := answer(s)
		return &authenticator.Response{User: &user.DefaultInfo{Name: "somebody"}}, ok, err
	})
}

// What a prefix identifies is asked about tokens with that prefix alone, as they are written; the others are asked about each token that is
// not accepted before.
func TestAPrefixChoosesWhoIsAskedAboutAToken(t *testing.T) {
	const jwt = "eyJhbGciOiJSUzI1NiJ9.e30.x"
	for claim, test := range map[string]struct {
		token       string
		keys, robot int
	}{
		"access token":             {jwt, 0, 0},
		"prefix alone":             {"ksk_", 1, 0},
		"another prefix alone":     {"kssa_", 0, 1},
		"beginning of the prefix":  {"ksk", 0, 0},
		"prefix in another case":   {"KSK_" + jwt, 0, 0},
		"prefix partly in another": {"ksk-" + jwt, 0, 0},
		"JWT after the prefix":     {"ksk_" + jwt, 1, 0},
		"prefix in a JWT":          {jwt + "ksk_", 0, 0},
		"two prefixes":             {"ksk_kssa_x", 1, 0},
		"the other one first":      {"kssa_ksk_x", 0, 1},
		"dot before the prefix":    {".ksk_x", 0, 0},
	} {
		t.Run(claim, func(t *testing.T) {
			var keys, robot, rest int
			refuse := func(string) (bool, error) { return false, errBad }
			a := &bearer.Authenticator{
				Prefixed: []bearer.Prefixed{{Prefix: "ksk_", Token: asked(&keys, refuse)}, {Prefix: "kssa_", Token: asked(&robot, refuse)}},
				Tokens:   []authenticator.Token{asked(&rest, func(string) (bool, error) { return false, nil })},
			}
			if _, ok, err := a.AuthenticateToken(t.Context(), test.token); ok || err == nil || errors.Is(err, errBad) != (test.keys+test.robot > 0) {
				t.Errorf("%v, %v", ok, err)
			}
			if keys != test.keys || robot != test.robot || rest != 1 {
				t.Errorf("API keys were asked %d times, service accounts %d, the rest %d", keys, robot, rest)
			}
		})
	}
}

// Choosing by the prefix accepts and refuses what asking all in turn did, and says "not now" where any of those could have known the token.
func TestChoosingByPrefixAnswersAsAskingEachInTurn(t *testing.T) {
	busy := errors.New("not now")
	answers := map[string]func(string) (bool, error){
		"accepts":       func(string) (bool, error) { return true, nil },
		"knows nothing": func(string) (bool, error) { return false, nil },
		"refuses":       func(string) (bool, error) { return false, errBad },
		"not now":       func(string) (bool, error) { return false, busy },
		"contradicts":   func(string) (bool, error) { return true, errBad },
	}
	for first, key := range answers {
		for second, other := range answers {
			var n int
			prefixed := asked(&n, key)
			inTurn := authenticator.TokenFunc(func(ctx context.Context, s string) (*authenticator.Response, bool, error) {
				if !strings.HasPrefix(s, "ksk_") {
					return nil, false, nil
				}
				return prefixed.AuthenticateToken(ctx, s)
			})
			all := &bearer.Authenticator{Tokens: []authenticator.Token{inTurn, asked(&n, other)}}
			chosen := &bearer.Authenticator{
				Prefixed: []bearer.Prefixed{{Prefix: "ksk_", Token: prefixed}}, Tokens: []authenticator.Token{asked(&n, other)},
			}
			for _, token := range []string{"ksk_", "ksk_x", "KSK_x", "ksk", "x.ksk_.y", "ksk_eyJ.e30.x"} {
				_, want, wrong := all.AuthenticateToken(t.Context(), token)
				_, got, err := chosen.AuthenticateToken(t.Context(), token)
				if got != want || fmt.Sprint(err) != fmt.Sprint(wrong) || errors.Is(err, busy) != errors.Is(wrong, busy) {
					t.Errorf("the key's %s, the other %s, %q: %v, %v instead of %v, %v", first, second, token, got, err, want, wrong)
				}
			}
		}
	}
}

// S52: the cookie counts on a WebSocket of our own pages, and nowhere else.
func TestCookieCountsOnWebSocketsOfOurPagesOnly(t *testing.T) {
	a := &bearer.Authenticator{Tokens: []authenticator.Token{only("good", "alice")}, Origins: []string{"https://console.example"}}
	type edit = func(*http.Request)
	for name, test := range map[string]struct {
		edit  edit
		user  string
		fails bool
	}{
		"our page":               {func(*http.Request) {}, "alice", false},
		"our page, another case": {func(r *http.Request) { r.Header.Set("Origin", "http://KS.example:9090") }, "alice", false},
		"configured page":        {func(r *http.Request) { r.Header.Set("Origin", "https://console.example") }, "alice", false},
		"foreign page":           {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, "", false},
		"page of a like name":    {func(r *http.Request) { r.Header.Set("Origin", "http://ks.example:9090.evil.example") }, "", false},
		"other port":             {func(r *http.Request) { r.Header.Set("Origin", "http://ks.example:1") }, "", false},
		"other scheme":           {func(r *http.Request) { r.Header.Set("Origin", "file://ks.example:9090") }, "", false},
		"user in the origin":     {func(r *http.Request) { r.Header.Set("Origin", "http://ks.example:9090@evil.example") }, "", false},
		"path in the origin":     {func(r *http.Request) { r.Header.Set("Origin", "http://ks.example:9090/x") }, "", false},
		"null":                   {func(r *http.Request) { r.Header.Set("Origin", "null") }, "", false},
		"no origin":              {func(r *http.Request) { r.Header.Del("Origin") }, "", false},
		"two origins":            {func(r *http.Request) { r.Header.Add("Origin", "http://ks.example:9090") }, "", false},
		"no upgrade":             {func(r *http.Request) { r.Header.Del("Upgrade") }, "", false},
		"no connection":          {func(r *http.Request) { r.Header.Del("Connection") }, "", false},
		"SPDY":                   {func(r *http.Request) { r.Header.Set("Upgrade", "SPDY/3.1") }, "", false},
		"POST":                   {func(r *http.Request) { r.Method = http.MethodPost }, "", false},
		"no cookie":              {func(r *http.Request) { r.Header.Del("Cookie") }, "", false},
		"empty cookie":           {func(r *http.Request) { r.Header.Set("Cookie", "token=") }, "", false},
		"bad cookie":             {func(r *http.Request) { r.Header.Set("Cookie", "token=bad") }, "", true},
		"malformed cookie":       {func(r *http.Request) { r.Header.Set("Cookie", "token=a b") }, "", true},
		"two cookies":            {func(r *http.Request) { r.Header.Set("Cookie", "token=good; token=x") }, "", true},
		"long cookies":           {func(r *http.Request) { r.Header.Set("Cookie", "token=good; x="+strings.Repeat("x", bearer.MaxHeader)) }, "", true},
		"header beside it":       {func(r *http.Request) { r.Header.Set("Authorization", "Bearer bad") }, "", true},
		"empty header beside it": {func(r *http.Request) { r.Header["Authorization"] = []string{""} }, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "http://ks.example:9090/api/v1/watch/pods", nil)
			r.Header.Set("Connection", "keep-alive, Upgrade")
			r.Header.Set("Upgrade", "websocket")
			r.Header.Set("Origin", "http://ks.example:9090")
			r.Header.Set("Cookie", "lang=en; token=good")
			test.edit(r)
			check(t, a, r, test.user, test.fails)
		})
	}
}

// S27: a megabyte of dots is refused, and never copied.
func TestMegabyteOfDotsCostsNoMemory(t *testing.T) {
	a := &bearer.Authenticator{Tokens: []authenticator.Token{only("good", "alice")}}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+strings.Repeat(".", 1<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		if _, _, err := a.AuthenticateRequest(r); err == nil {
			t.Fatal("accepted")
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / 100; each > 1<<10 {
		t.Errorf("%d bytes for a refusal", each)
	}
}

func FuzzFromHeader(f *testing.F) {
	for _, s := range []string{"", "Bearer x", "Bearer  x", "bearer a.b.c", "Basic eDp5", "Bearer =", "Bearer\x00x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		token, found, err := bearer.FromHeader(http.Header{"Authorization": {s}})
		if found == (err != nil) {
			t.Errorf("%q: found %v, %v", s, found, err)
		}
		if found && (token == "" || strings.ContainsAny(token, " \t\r\n,;\"") || !strings.HasSuffix(s, token)) {
			t.Errorf("%q gives %q", s, token)
		}
	})
}

type sessions func(a *token.Access) (user.Info, error)

func (f sessions) Authenticate(_ context.Context, a *token.Access) (user.Info, error) { return f(a) }

// S36: the session of a good token is checked at every request, even when the token is cached.
func TestGoodTokenIsOnlyAsGoodAsItsSession(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }
	keys, err := token.Generate(now())
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := token.NewVerifier(token.Rules{Keys: keys, Issuer: "https://ks.example", Audience: "a", Now: now, CacheSize: 16})
	if err != nil {
		t.Fatal(err)
	}
	issuer := &token.Issuer{Keys: keys, URL: "https://ks.example", Audience: "a", Now: now}
	s, err := issuer.Access(&token.Access{Subject: "u", Username: "alice", Client: "c", Session: "s1", Issued: now(), Expires: now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	var over error
	asked := 0
	a := &bearer.AccessTokens{Verifier: verifier, Sessions: sessions(func(a *token.Access) (user.Info, error) {
		asked++
		if a.Session != "s1" || a.Subject != "u" {
			t.Errorf("asked about %+v", a)
		}
		return &user.DefaultInfo{Name: a.Username}, over
	})}
	for range 2 {
		if resp, ok, err := a.AuthenticateToken(t.Context(), s); !ok || err != nil || resp.User.GetName() != "alice" {
			t.Fatalf("%v, %v", ok, err)
		}
	}
	over = errors.New("over")
	if _, ok, err := a.AuthenticateToken(t.Context(), s); ok || !errors.Is(err, over) {
		t.Errorf("%v, %v", ok, err)
	}
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
	forUserinfo, err := issuer.Access(&token.Access{Subject: "u", Username: "alice", Client: "c", Session: "s1", Issued: now(), Expires: now().Add(time.Hour),
		Audience: token.UserInfo("https://ks.example")})
	if err != nil {
		t.Fatal(err)
	}
	over = nil
	for range 2 { // T9700-8
		if _, ok, err := a.AuthenticateToken(t.Context(), forUserinfo); ok || !errors.Is(err, token.ErrInvalid) || asked != 3 {
			t.Errorf("a token for the userinfo endpoint: %v, %v", ok, err)
		}
	}
	if _, ok, err := a.AuthenticateToken(t.Context(), s+"x"); ok || !errors.Is(err, token.ErrInvalid) || asked != 3 {
		t.Errorf("a bad token: %v, %v", ok, err)
	}
}

type keys struct {
	name string
	err  error
}

func (k keys) Authenticate(key token.APIKey) (user.Info, error) {
	if key.Name != k.name {
		return nil, errors.New("not the key")
	}
	return &user.DefaultInfo{Name: "alice"}, k.err
}

func TestOnlyAPIKeysAreVerified(t *testing.T) {
	text, key := token.NewAPIKey()
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		token string
		keys  keys
		ok    bool
		err   bool
	}{
		"Good":         {text, keys{name: key.Name}, true, false},
		"Refused":      {text, keys{name: key.Name, err: refused}, false, true},
		"Unknown":      {text, keys{name: "another"}, false, true},
		"CutOff":       {text[:40], keys{name: key.Name}, false, true},
		"AnotherToken": {"eyJhbGciOiJSUzI1NiJ9.e30.x", keys{}, false, false},
		"Empty":        {"", keys{}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			resp, ok, err := (&bearer.APIKeys{Keys: test.keys}).AuthenticateToken(t.Context(), test.token)
			if ok != test.ok || (err != nil) != test.err || ok && resp.User.GetName() != "alice" {
				t.Errorf("%v, %v, %v", resp, ok, err)
			}
		})
	}
}

func FuzzAPIKeys(f *testing.F) {
	text, key := token.NewAPIKey()
	f.Add(text)
	f.Add("ksk_")
	a := &bearer.APIKeys{Keys: keys{name: key.Name}}
	f.Fuzz(func(t *testing.T, s string) {
		if _, ok, err := a.AuthenticateToken(t.Context(), s); ok && (err != nil || s[:30] != text[:30]) {
			t.Errorf("%q is good", s)
		}
	})
}
