package oidc

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/oidc"
)

const (
	callback = "https://ks.example/oauth/callback/op"
	signedUp = "https://ks.example/oauth/logout"
)

// start starts the provider, and returns its issuer and what opens it.
func start(t *testing.T, method string, settings map[string]any) (string, idp.Provider) {
	t.Helper()
	op := Start(t, Options{Dir: ".", Callback: callback, Logout: signedUp, Method: method})
	all := map[string]any{
		"issuer":       op.Issuer,
		"clientID":     ClientID,
		"clientSecret": op.Secret,
		"groupsKey":    "groups",
		"groupsPrefix": "",
		"scopes":       []string{"openid", "profile", "email", "groups"},
		"getUserInfo":  true,
	}
	for k, v := range settings {
		all[k] = v
	}
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	p, err := oidc.Type().Open(raw, idp.OpenOptions{Name: "op", AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	return op.Issuer, p
}

// browser is a browser: it keeps cookies, follows redirects up to our own addresses, and fills in forms.
type browser struct {
	t *testing.T
	*http.Client
	pages int // that were shown
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t: t, Client: &http.Client{Jar: jar, Timeout: 3 * time.Minute, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if r.URL.Host == "ks.example" {
			return http.ErrUseLastResponse
		}
		return nil
	}}}
}

var (
	action = regexp.MustCompile(`action="([^"]+)"`)
	hidden = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
)

// visit goes to an address, fills in each form that it is shown, and returns where it is sent back to.
func (b *browser) visit(address, who string) *url.URL {
	b.t.Helper()
	resp, err := b.Get(address)
	for range 6 {
		if err != nil {
			b.t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if back, err := resp.Location(); err == nil {
			return back
		}
		b.pages++
		form := action.FindSubmatch(body)
		if resp.StatusCode != http.StatusOK || form == nil {
			b.t.Fatalf("%s: %s\n%s", resp.Request.URL, resp.Status, body)
		}
		to, parse := resp.Request.URL.Parse(html.UnescapeString(string(form[1])))
		if parse != nil {
			b.t.Fatal(parse)
		}
		fields := url.Values{"login": {who}, "password": {"any"}, "logout": {"yes"}}
		for _, f := range hidden.FindAllSubmatch(body, -1) {
			fields.Set(string(f[1]), html.UnescapeString(string(f[2])))
		}
		resp, err = b.PostForm(to.String(), fields)
	}
	b.t.Fatal("there is no end of forms")
	return nil
}

// login logs a user in.
func login(t *testing.T, b *browser, p idp.Provider, who string) *idp.Identity {
	t.Helper()
	begin := idp.Begin{Callback: callback, State: rand.Text() + "&=", Nonce: rand.Text(), Verifier: rand.Text() + rand.Text(), LoginHint: who}
	address, err := p.(idp.Redirect).Begin(t.Context(), begin)
	if err != nil {
		t.Fatal(err)
	}
	back := b.visit(address, who)
	if back.Query().Get("state") != begin.State {
		t.Fatalf("sent back to %s", back)
	}
	person, err := p.(idp.Redirect).Finish(t.Context(), idp.Callback{Values: back.Query(), Callback: callback, Nonce: begin.Nonce, Verifier: begin.Verifier})
	if err != nil {
		t.Fatal(err)
	}
	return person
}

// put sets an attribute of a user at the provider.
func put(t *testing.T, address string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

func TestSomebodyLogsInIsRefreshedAndLogsOut(t *testing.T) { // TCore-12, TLogout-6, U33, U34
	for _, method := range []string{"client_secret_basic", "client_secret_post"} {
		t.Run(method, func(t *testing.T) {
			issuer, p := start(t, method, nil)
			if err := p.Check(t.Context()); err != nil {
				t.Fatalf("check: %v", err)
			}
			b := newBrowser(t)
			who := login(t, b, p, "jane")
			if who.Subject != "jane" || who.Email != "jane@example.com" || who.DisplayName != "Person jane" || who.Lang != "zh-CN" ||
				!slices.Equal(who.Groups, []string{"newcomers", "staff"}) {
				t.Errorf("%+v", who)
			}
			put(t, issuer+"/people/jane/admins")
			now, err := p.(idp.Refresher).Refresh(t.Context(), who.Subject, who.Refresh)
			if err != nil || !slices.Equal(now.Groups, []string{"admins", "staff"}) {
				t.Fatalf("refresh: %+v, %v", now, err)
			}
			b.pages = 0
			login(t, b, p, "jane")
			if b.pages > 0 {
				t.Fatalf("he is logged in there, and yet was shown %d pages", b.pages)
			}
			address, err := p.(idp.Logout).Logout(t.Context(), now.Hint, signedUp, "state&=")
			if err != nil {
				t.Fatal(err)
			}
			if back := b.visit(address, "jane"); !strings.HasPrefix(back.String(), signedUp) || back.Query().Get("state") != "state&=" {
				t.Errorf("after the logout, sent back to %s", back)
			}
			b.pages = 0
			if who = login(t, b, p, "john"); who.Subject != "john" || b.pages == 0 {
				t.Errorf("after the logout there, %s comes in by %d pages", who.Subject, b.pages)
			}
			if _, err := p.(idp.Refresher).Refresh(t.Context(), "jane", now.Refresh); !errors.Is(err, idp.ErrGone) {
				t.Errorf("after the logout there, a refresh gives %v", err)
			}
		})
	}
}

func TestSomebodyWhoIsGoneThereIsGone(t *testing.T) { // S12
	issuer, p := start(t, "client_secret_basic", nil)
	who := login(t, newBrowser(t), p, "jane")
	put(t, issuer+"/people/jane/gone")
	if _, err := p.(idp.Refresher).Refresh(t.Context(), who.Subject, who.Refresh); !errors.Is(err, idp.ErrGone) {
		t.Errorf("%v", err)
	}
}

func TestAnotherSecretIsFoundByTheCheck(t *testing.T) {
	_, p := start(t, "client_secret_basic", map[string]any{"clientSecret": "another"})
	if err := p.Check(t.Context()); err == nil || errors.Is(err, idp.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

func TestACodeOfAnotherLoginIsRefused(t *testing.T) { // S41: PKCE and nonce, as another's server takes them
	_, p := start(t, "client_secret_basic", nil)
	b := newBrowser(t)
	for name, change := range map[string]func(c *idp.Callback){
		"verifier": func(c *idp.Callback) { c.Verifier = rand.Text() + rand.Text() },
		"nonce":    func(c *idp.Callback) { c.Nonce = rand.Text() },
		"place":    func(c *idp.Callback) { c.Callback = "https://ks.example/oauth/callback/other" },
	} {
		begin := idp.Begin{Callback: callback, State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text()}
		address, err := p.(idp.Redirect).Begin(t.Context(), begin)
		if err != nil {
			t.Fatal(err)
		}
		c := idp.Callback{Values: b.visit(address, "jane").Query(), Callback: callback, Nonce: begin.Nonce, Verifier: begin.Verifier}
		change(&c)
		if _, err := p.(idp.Redirect).Finish(t.Context(), c); !errors.Is(err, idp.ErrRefused) {
			t.Errorf("another %s: %v", name, err)
		}
	}
}
