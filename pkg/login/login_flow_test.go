package login

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// visit is a browser whose requests the test sends itself.
type visit struct {
	*http.Client
	address chan string
}

func newVisit(i *issuer) *visit {
	c := *i.Client()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &visit{&c, make(chan string, 1)}
}

func (v *visit) open(_ context.Context, address string) error {
	v.address <- address
	return nil
}

func (v *visit) get(t *testing.T, address, host string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	must(t, err)
	if host != "" {
		req.Host = host
	}
	resp, err := v.Do(req)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, resp.Header, string(body)
}

func TestOnlyTheRightAnswerOfTheBrowserCounts(t *testing.T) { // T9700-17, T9207-3
	i := newIssuer(t)
	v := newVisit(i)
	o := i.options(t, t.TempDir()+"/ks")
	o.Open = v.open
	s := newSession(t, o)
	done := make(chan error, 1)
	go func() {
		_, err := s.Token(t.Context())
		done <- err
	}()
	asked := <-v.address
	_, h, _ := v.get(t, asked, "")
	back, err := url.Parse(h.Get("Location"))
	must(t, err)
	if back.Hostname() != "127.0.0.1" || !strings.HasPrefix(h.Get("Location"), "http://127.0.0.1:") {
		t.Fatalf("it leads to %s", h.Get("Location"))
	}
	other := *back
	q := other.Query()
	q.Set("state", "guessed")
	other.RawQuery = q.Encode()
	favicon := *back
	favicon.Path, favicon.RawQuery = "/favicon.ico", ""
	none := *back
	none.RawQuery = ""
	for name, c := range map[string]struct {
		address, host string
		code          int
	}{
		"AnotherState":     {other.String(), "", 400},
		"NoState":          {none.String(), "", 400},
		"AnotherPath":      {favicon.String(), "", 404},
		"AnotherHost":      {back.String(), "evil.example.com", 404}, // DNS rebinding
		"AnotherLocalName": {back.String(), "localhost:" + back.Port(), 404},
	} {
		if code, _, _ := v.get(t, c.address, c.host); code != c.code {
			t.Errorf("%s: %d", name, code)
		}
	}
	code, h, body := v.get(t, back.String(), "")
	if code != 200 || !strings.Contains(body, "You are logged in") || h.Get("Cache-Control") != "no-store" ||
		!strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%d %v %s", code, h, body)
	}
	for _, secret := range []string{back.Query().Get("code"), back.Query().Get("state"), "access-", "refresh-"} {
		if strings.Contains(body, secret) {
			t.Errorf("the page shows %q", secret)
		}
	}
	must(t, <-done)
	if _, err := v.Get(back.String()); err == nil {
		t.Error("it still listens")
	}
}

func TestALoginThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*issuer, *Options)
		says   string
	}{
		"ThePersonSaysNo": {func(i *issuer, _ *Options) { i.refuse = "access_denied" }, "access_denied"},
		"AnotherIssuer":   {func(i *issuer, _ *Options) { i.badIssuer = "https://evil.example.com" }, "not of this issuer"}, // T9207-3
		"AnotherAudience": {func(i *issuer, _ *Options) { i.audience = "other" }, "another client"},                         // TCore-12
		"AnotherPerson":   {func(_ *issuer, o *Options) { o.User = "bob" }, `"alice" has logged in, and it has to be "bob"`},
		"AnotherClient":   {func(_ *issuer, o *Options) { o.Client = "other"; o.Way = Device }, "--client-id"},
		"TheServerCannot": {func(i *issuer, _ *Options) {
			i.fails["/token authorization_code"] = failure{503, "temporarily_unavailable", -1}
		}, "try again"},
		"TheDeviceIsDenied": {func(i *issuer, o *Options) {
			o.Way = Device
			i.fails["/token "+deviceGrant] = failure{400, "access_denied", -1}
		}, "was refused"},
	} {
		t.Run(name, func(t *testing.T) {
			i, dir := newIssuer(t), t.TempDir()+"/ks"
			o := i.options(t, dir)
			c.change(i, &o)
			s := newSession(t, o)
			if _, err := s.Token(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) || strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("got %v, want %q in it", err, c.says)
			}
			if s.cache.read() != nil {
				t.Error("something is kept")
			}
			if name == "AnotherPerson" && (len(i.revoked) != 1 || i.refresh != "") {
				t.Error("what nobody is to use was not given back")
			}
		})
	}
}

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

func TestADeviceCode(t *testing.T) { // T8628-3 from the client's side
	i, dir := newIssuer(t), t.TempDir()+"/ks"
	o := i.options(t, dir)
	o.Way, o.Open = Device, nil
	i.pending = 1
	i.fails["/token "+deviceGrant] = failure{503, "temporarily_unavailable", 1} // a replica that stops has not refused
	s := newSession(t, o)
	if got := tokenOf(t, s); got.Access == "" {
		t.Errorf("%+v", got)
	}
	said := s.Tell.(*told).String()
	if !strings.Contains(said, i.URL+"/verify?user_code=BCDF-GHJK\n") || !strings.Contains(said, "the code BCDF-GHJK") || strings.Contains(said, "d1") {
		t.Errorf("it was said: %s", said)
	}
	if n := i.count("/token " + deviceGrant); n != 3 {
		t.Errorf("%d polls", n)
	}
}

func TestNobodyIsWaitedForForEver(t *testing.T) {
	i, dir := newIssuer(t), t.TempDir()+"/ks"
	for name, way := range map[string]Way{"Browser": Browser, "Device": Device} {
		t.Run(name, func(t *testing.T) {
			o := i.options(t, dir)
			ctx, cancel := context.WithCancelCause(t.Context())
			i.change(func() { i.pending = 1 << 20 })
			o.Way = way
			o.Open = func(context.Context, string) error { cancel(context.Canceled); return nil }
			if way == Device {
				stop := time.AfterFunc(time.Second/10, func() { cancel(context.Canceled) })
				defer stop.Stop()
			}
			if _, err := newSession(t, o).Token(ctx); err == nil || !strings.Contains(err.Error(), "canceled") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func FuzzIdentity(f *testing.F) {
	f.Add("e30.eyJpc3MiOiJpIiwiYXVkIjoiYyIsIm5vbmNlIjoibiJ9.x", "n")
	f.Add("e30.eyJpc3MiOiJpIiwiYXVkIjpbImMiLCJkIl19.x", "")
	f.Add("..", "")
	f.Add("a.b", "x")
	f.Fuzz(func(t *testing.T, raw, nonce string) {
		id, err := readIdentity(raw, "i", "c", nonce)
		if err == nil && (id.Issuer != "i" || nonce != "" && id.Nonce != nonce) {
			t.Errorf("%q was taken", raw)
		}
	})
}

func TestWhatAServerSaysIsSafeToShow(t *testing.T) {
	for in, want := range map[string]string{
		"fine":                    "fine",
		"\x1b]0;owned\x07\r\nx":   "]0;ownedx",
		"a\u009bb\u2028c\u7fffd":  "abc\u7fffd",
		strings.Repeat("x", 1000): strings.Repeat("x", 300),
	} {
		if got := plain(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
	for address, good := range map[string]bool{"https://x/y?c=1": true, "javascript:alert(1)": false, "https://x/\x1b[31m": false, "": false, "x": false} {
		if isAddress(address) != good {
			t.Errorf("%q: %v", address, !good)
		}
	}
}
