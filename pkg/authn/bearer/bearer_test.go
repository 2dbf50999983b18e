package bearer_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authn/bearer"
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
