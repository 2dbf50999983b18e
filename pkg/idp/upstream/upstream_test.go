package upstream_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/upstream"
)

func TestOnlyAddressesOverTLSAreTaken(t *testing.T) {
	for address, want := range map[string][2]bool{ // not with loopback, with it
		"https://idp.example": {true, true}, "https://idp.example:8443/x/": {true, true}, "https://10.0.0.1/x?y=z": {true, true}, "https://[fd12::1]/": {true, true},
		"http://127.0.0.1:80/x": {false, true}, "http://localhost:80": {false, true}, "http://[::1]:80": {false, true},
		"": {}, "http://idp.example": {}, "http://127.0.0.1.evil.example": {}, "http://localhost.evil.example": {}, "idp.example": {}, "//idp.example": {}, "/x": {},
		"https://": {}, "https:///x": {}, "https://:443": {}, "https://user@idp.example": {}, "https://u:p@idp.example": {}, "https://idp.example#": {},
		"https://idp.example/#x": {},
		"ftp://idp.example":      {}, "file:///etc/passwd": {}, "javascript:x": {}, "https:idp.example": {}, "https://idp example": {}, "https:\\\\idp.example": {},
		"https://idp.example\n":    {},
		"https://idp.example/\x00": {}, "HTTPS://idp.example": {true, true},
	} {
		for i, loopback := range []bool{false, true} {
			err := upstream.Address("some.key", address, loopback)
			if (err == nil) != want[i] {
				t.Errorf("%q, loopback %v: %v", address, loopback, err)
			}
			if err != nil && (!strings.Contains(err.Error(), "some.key") || len(address) > len("https://") && strings.Contains(err.Error(), address)) {
				t.Errorf("%q: %v", address, err)
			}
		}
	}
}

func TestParametersJoinThoseThatAreThere(t *testing.T) {
	got, err := upstream.Extend("https://idp.example/auth?tenant=1&state=old", url.Values{"state": {"a&b=c"}})
	if err != nil || got != "https://idp.example/auth?state=a%26b%3Dc&tenant=1" {
		t.Errorf("%s, %v", got, err)
	}
}

func claims(t *testing.T, text string) upstream.Claims {
	t.Helper()
	a := &upstream.Answer{Status: http.StatusOK, Body: []byte(text)}
	c := upstream.Claims{}
	if err := a.JSON(&c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestASubjectIsTextOrAWholeNumber(t *testing.T) {
	for text, want := range map[string]string{
		`"a"`: "a", `17`: "17", `9007199254740993`: "9007199254740993", `"17"`: "17", `"中"`: "中",
		`""`: "", `0`: "", `1.5`: "", `1e3`: "", `true`: "", `null`: "", `[]`: "", `["a"]`: "", `{}`: "", `" a"`: "", `"a\n"`: "", `"a\u0000"`: "", `"a\u200bb"`: "",
		`"` + strings.Repeat("x", 255) + `"`: strings.Repeat("x", 255), `"` + strings.Repeat("x", 256) + `"`: "",
	} {
		if got := claims(t, `{"sub":`+text+`}`).Subject("sub"); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestClaimsAreFoundByTheirNameOrWithinObjects(t *testing.T) {
	c := claims(
		t,
		`{"https://x.example/groups":["a",1,null,"b"],"realm":{"roles":["c"],"deep":{"x":"y"}},"one":"d","a.b":"dotted","a":{"b":"within"},"on":"true","off":"false","locale":"zh_CN","bad":"<x>","name":" Jane\r\nDoe "}`,
	)
	for key, want := range map[string]string{"https://x.example/groups": "a,b", "realm.roles": "c", "one": "d", "realm.deep": "", "realm.none.x": "",
		"missing": "", "one.x": ""} {
		if got := strings.Join(c.List(key), ","); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if c.Text("a.b") != "dotted" || c.Text("realm.deep.x") != "y" || c.First("none", "one") != "d" || c.Text("name") != "JaneDoe" {
		t.Errorf("%q, %q, %q, %q", c.Text("a.b"), c.Text("realm.deep.x"), c.First("none", "one"), c.Text("name"))
	}
	if !c.True("on") || c.True("off") || c.True("missing") || c.Has("missing") || !c.Has("off") {
		t.Error("true is true, or its text")
	}
	if c.Language("locale") != "zh-CN" || c.Language("bad") != "" {
		t.Errorf("%q, %q", c.Language("locale"), c.Language("bad"))
	}
}

func TestAnEmailIsOneAddressAlone(t *testing.T) {
	for text, want := range map[string]bool{
		"a@b.c": true, "a+b@c.example": true, "Jane <a@b.c>": false, "a@b.c, d@e.f": false, "a": false, "": false, "a@b.c\n": false, " a@b.c": false,
		strings.Repeat("x", 250) + "@b.cc": false,
	} {
		if got := upstream.Email(text) != ""; got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func FuzzALineCanBeShown(f *testing.F) {
	f.Add("a\nb\u200b \xff", 3)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = max(0, most%300)
		if got := upstream.Line(s, most); len(got) > most || strings.ContainsAny(got, "\r\n\x00") {
			t.Errorf("%q of %q", got, s)
		}
	})
}

// serve starts a server, and returns a client for it.
func serve(t *testing.T, s upstream.Settings, h http.HandlerFunc) (*upstream.Client, string) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := upstream.NewClient(s, idp.OpenOptions{Name: "test", AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	return c, srv.URL
}

func TestAnErrorOfATokenEndpointIsToldByItsKind(t *testing.T) {
	for name, test := range map[string]struct {
		status         int
		body           string
		redeem, renew  error
		settings, good bool
	}{
		"Tokens":            {status: 200, body: `{"access_token":"a","refresh_token":"r"}`, good: true},
		"BadCode":           {status: 400, body: `{"error":"invalid_grant"}`, redeem: idp.ErrRefused, renew: idp.ErrGone},
		"BadClient":         {status: 401, body: `{"error":"invalid_client"}`, redeem: idp.ErrUnavailable, renew: idp.ErrUnavailable, settings: true},
		"BadClientAsAPage":  {status: 401, body: `<html>`, redeem: idp.ErrUnavailable, renew: idp.ErrUnavailable, settings: true},
		"GitHubsCode":       {status: 200, body: `{"error":"bad_verification_code"}`, redeem: idp.ErrRefused, renew: idp.ErrUnavailable},
		"GitHubsClient":     {status: 200, body: `{"error":"incorrect_client_credentials"}`, redeem: idp.ErrUnavailable, renew: idp.ErrUnavailable, settings: true},
		"GitHubsRefresh":    {status: 200, body: `{"error":"bad_refresh_token"}`, redeem: idp.ErrRefused, renew: idp.ErrGone},
		"AnErrorOfItsOwn":   {status: 400, body: `{"error":"canary"}`, redeem: idp.ErrRefused, renew: idp.ErrUnavailable},
		"Overload":          {status: 429, body: `{"error":"invalid_grant"}`, redeem: idp.ErrUnavailable, renew: idp.ErrUnavailable},
		"Fault":             {status: 500, body: `{"error":"invalid_grant"}`, redeem: idp.ErrUnavailable, renew: idp.ErrUnavailable},
		"NoTokens":          {status: 200, body: `{}`, redeem: idp.ErrUnavailable, renew: idp.ErrUnavailable, settings: true},
		"ATokenOfTwoLines":  {status: 200, body: `{"access_token":"a\r\nX-Evil: 1"}`, redeem: idp.ErrUnavailable, renew: idp.ErrUnavailable, settings: true},
		"AForm":             {status: 200, body: `access_token=canary`, redeem: idp.ErrUnavailable, renew: idp.ErrUnavailable, settings: true},
		"NotFound":          {status: 404, body: `canary`, redeem: idp.ErrUnavailable, renew: idp.ErrUnavailable, settings: true},
		"ProxyInBetween400": {status: 400, body: `<h1>canary</h1>`, redeem: idp.ErrUnavailable, renew: idp.ErrUnavailable, settings: true},
	} {
		t.Run(name, func(t *testing.T) {
			c, base := serve(t, upstream.Settings{}, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			})
			g := &upstream.Grant{Client: c, ID: "id", Secret: idp.NewSecret("secret")}
			_, redeem := g.Redeem(t.Context(), base, "code", "https://x", "v", upstream.StyleBasic)
			_, renew := g.Renew(t.Context(), base, "refresh", upstream.StyleForm)
			for _, pair := range [][2]error{{redeem, test.redeem}, {renew, test.renew}} {
				switch {
				case test.good && pair[0] == nil:
				case !errors.Is(pair[0], pair[1]), errors.Is(pair[0], upstream.ErrSettings) != test.settings:
					t.Errorf("got %v, want %v (settings: %v)", pair[0], pair[1], test.settings)
				case strings.Contains(pair[0].Error(), "canary"):
					t.Errorf("the error repeats the answer: %v", pair[0])
				}
			}
		})
	}
}

func TestACodeIsSentASecondTimeOnlyWhereTheClientWasNotKnown(t *testing.T) {
	var forms []string
	answer := `{"error":"invalid_client"}`
	c, base := serve(t, upstream.Settings{}, func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		_, _, basic := r.BasicAuth()
		forms = append(forms, map[bool]string{true: "basic", false: "form"}[basic])
		if basic || answer != `{"error":"invalid_client"}` {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(answer))
			return
		}
		_, _ = w.Write([]byte(`{"access_token":"a"}`))
	})
	g := &upstream.Grant{Client: c, ID: "id", Secret: idp.NewSecret("secret")}
	for range 2 {
		if _, err := g.Redeem(t.Context(), base, "code", "https://x", "v", upstream.StyleUnknown); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(forms, " "); got != "basic form form" {
		t.Errorf("the client proved itself by: %s", got)
	}
	forms, answer = nil, `{"error":"invalid_grant"}`
	g = &upstream.Grant{Client: c, ID: "id", Secret: idp.NewSecret("secret")}
	if _, err := g.Redeem(t.Context(), base, "code", "https://x", "v", upstream.StyleUnknown); !errors.Is(err, idp.ErrRefused) || len(forms) != 1 {
		t.Errorf("%v, after %q", err, forms)
	}
}

func TestAClientsNameAndSecretAreEncodedForBasic(t *testing.T) { // RFC 6749, 2.3.1
	c, base := serve(t, upstream.Settings{}, func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		_ = json.NewEncoder(w).Encode(map[string]string{"access_token": id + " " + secret})
	})
	g := &upstream.Grant{Client: c, ID: "a:b", Secret: idp.NewSecret("c+d %")}
	got, err := g.Redeem(t.Context(), base, "code", "https://x", "v", upstream.StyleBasic)
	if err != nil || got.Access != "a%3Ab c%2Bd+%25" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAuthoritiesAreTakenAsPEMAsBase64AndFromAFile(t *testing.T) { // S21
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	defer srv.Close()
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(s upstream.Settings) error {
		c, err := upstream.NewClient(s, idp.OpenOptions{AllowLoopback: true})
		if err != nil {
			return err
		}
		_, err = c.Get(t.Context(), srv.URL, "", "*/*")
		return err
	}
	for name, s := range map[string]upstream.Settings{"PEM": {RootCAData: text}, "Base64": {RootCAData: base64.StdEncoding.EncodeToString([]byte(text))},
		"File": {RootCA: file}, "Unverified": {InsecureSkipVerify: true}} {
		if err := ask(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := ask(upstream.Settings{}); !errors.Is(err, upstream.ErrSettings) || !errors.Is(err, idp.ErrUnavailable) ||
		!strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown authority: %v", err)
	}
	for name, s := range map[string]upstream.Settings{"rootCAData": {RootCAData: "canary"},
		"rootCA": {RootCA: file + "x"}, "only one": {RootCA: file, RootCAData: text},
		"timeout": {Timeout: "canary"}} {
		if err := ask(s); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{"0s", "-1s", "1h", "10"} {
		if err := ask(upstream.Settings{Timeout: bad}); err == nil {
			t.Errorf("a timeout of %s is taken", bad)
		}
	}
}

func TestACertificateThatIsNotVerifiedIsLogged(t *testing.T) { // S21
	state := klog.CaptureState()
	defer state.Restore()
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	var logged bytes.Buffer
	klog.SetOutput(&logged)
	if _, err := upstream.NewClient(upstream.Settings{InsecureSkipVerify: true}, idp.OpenOptions{Name: "lax"}); err != nil {
		t.Fatal(err)
	}
	klog.Flush()
	if !strings.Contains(logged.String(), "lax") || !strings.Contains(logged.String(), "insecureSkipVerify") {
		t.Errorf("the log: %q", logged.String())
	}
}

func cached(fetch func(context.Context) (int, error)) (*upstream.Cached[int], *time.Time) {
	now := time.Unix(1_800_000_000, 0)
	return &upstream.Cached[int]{Fetch: fetch, Timeout: 10 * time.Second, Life: time.Hour, Now: func() time.Time { return now }}, &now
}

func TestWhatIsKeptIsFetchedOnce(t *testing.T) {
	var n atomic.Int64
	release := make(chan struct{})
	c, now := cached(func(context.Context) (int, error) {
		<-release
		return int(n.Add(1)), nil
	})
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if v, err := c.Get(t.Context()); v != 1 || err != nil {
				t.Errorf("%d, %v", v, err)
			}
		})
	}
	close(release)
	group.Wait()
	*now = now.Add(time.Hour)
	if v, err := c.Get(t.Context()); v != 2 || err != nil {
		t.Errorf("an hour later: %d, %v", v, err)
	}
	if v, err := c.Renew(t.Context(), time.Minute); v != 2 || err != nil {
		t.Errorf("renewed at once: %d, %v", v, err)
	}
	*now = now.Add(time.Minute)
	if v, err := c.Renew(t.Context(), time.Minute); v != 3 || err != nil {
		t.Errorf("renewed a minute later: %d, %v", v, err)
	}
}

// A caller who sees an old value, and comes to fetch it when another has just done so, gets what that one fetched.
func TestAValueFetchedWhileACallerLookedIsNotFetchedAgain(t *testing.T) {
	fetches, now := 0, time.Unix(1_800_000_000, 0)
	c := &upstream.Cached[int]{Timeout: 10 * time.Second, Life: time.Hour, Fetch: func(context.Context) (int, error) {
		fetches++
		return fetches, nil
	}}
	c.Now = func() time.Time { return now }
	if v, err := c.Get(t.Context()); v != 1 || err != nil {
		t.Fatalf("first: %d, %v", v, err)
	}
	now = now.Add(time.Hour)
	c.Now = func() time.Time { // the caller has looked at the value, and asks how old it is
		c.Now = func() time.Time { return now }
		if v, err := c.Get(t.Context()); v != 2 || err != nil {
			t.Errorf("the other caller: %d, %v", v, err)
		}
		return now
	}
	if v, err := c.Get(t.Context()); v != 2 || err != nil || fetches != 2 {
		t.Errorf("got %d, %v after %d fetches, want 2 after 2", v, err, fetches)
	}
}

func TestAFailureIsNotKept(t *testing.T) {
	fail := errors.New("down")
	err := fail
	c, now := cached(func(context.Context) (int, error) { return 7, err })
	if _, got := c.Get(t.Context()); !errors.Is(got, fail) {
		t.Errorf("%v", got)
	}
	err = nil
	if v, got := c.Get(t.Context()); v != 7 || got != nil {
		t.Errorf("%d, %v", v, got)
	}
	*now, err = now.Add(2*time.Hour), fail
	if _, got := c.Get(t.Context()); !errors.Is(got, fail) {
		t.Errorf("too old: %v", got)
	}
	c.Stale = true
	if v, got := c.Get(t.Context()); v != 7 || got != nil {
		t.Errorf("too old, and allowed to be: %d, %v", v, got)
	}
}

func TestOneWhoGoesAwayDoesNotEndTheFetchOfTheOthers(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	c, _ := cached(func(ctx context.Context) (int, error) {
		close(begun)
		<-release
		return 1, ctx.Err()
	})
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := c.Get(ctx)
		gone <- err
	}()
	<-begun
	leave()
	if err := <-gone; !errors.Is(err, idp.ErrUnavailable) {
		t.Errorf("who went away: %v", err)
	}
	close(release)
	if v, err := c.Get(t.Context()); v != 1 || err != nil {
		t.Errorf("who stayed: %d, %v", v, err)
	}
}
