package oauth

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"k8s.io/client-go/kubernetes/fake"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	iamlogin "kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/account"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/login"
)

const (
	consoleURI = "https://console.example/oauth/redirect/github"
	newPass    = "N3wP@ssword"
	otp        = "123456"
)

// pageTest is one server with its pages, and fakes of what they call.
type pageTest struct {
	*replicas
	*server
	providers providers
	github    *fakeRedirectProvider
	factors   *factors
	keys      *keys
	gate      *fakeAuthenticator
}

func newPageTest(t testing.TB) *pageTest {
	t.Helper()
	clients := testClients()
	clients[0].RedirectURIs = []string{consoleURI}
	clients = append(clients, client.Client{Name: script, Secret: "a-secret-of-a-script", GrantMethod: "prompt", RedirectURIs: []string{"https://x.example/cb"}})
	registry, err := client.NewRegistry(fake.NewClientset().CoreV1().Secrets("x"), clients, session.Lifetime{MaxAge: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	f := newReplicas(t, 1, func(s *settings) { s.edit = func(o *Options) { o.Clients = registry } })
	w := &pageTest{replicas: f, server: f.servers[0], github: &fakeRedirectProvider{}, factors: &factors{}, keys: &keys{}}
	w.providers = providers{
		{Name: "github", DisplayName: "GitHub", Provider: w.github},
		{Name: "google", Provider: &fakeRedirectProvider{}},
		{Name: "hidden", Hidden: true, Provider: &fakeRedirectProvider{}},
		{Name: "off", Disabled: true, Provider: &fakeRedirectProvider{}},
		{Name: "broken", Fault: errors.New("its settings are wrong")},
		{Name: "ldap", DisplayName: "Company", Provider: fakeLDAP{}},
	}
	w.gate = &fakeAuthenticator{Authenticator: w.oauth.Authenticator, site: w}
	o := w.oauth
	o.useDirectory(w.providers)
	o.loginSteps.Authenticator, o.callback.Authenticator, o.loginSteps.Enroller, o.loginSteps.Accounts = w.gate, w.gate, w.gate, w.gate
	passwords := &login.PasswordSetter{Change: w.changePassword, Users: o.Sessions.Users.ByName, OriginOf: o.Origin}
	w.offer(w.factors, w.factors, w.factors.of, w.keys, passwords)
	w.settle("alice", iamapi.UserActive)
	w.settle("bob", iamapi.UserActive)
	w.settle("gone", iamapi.UserDisabled)
	return w
}

// offer sets the features of the pages.
func (w *pageTest) offer(totp account.TOTP, passkeys interface {
	account.Passkeys
	login.Passkeys
}, enrolled func(*iam.User) factor.Enrolled, keys account.APIKeys, passwords *login.PasswordSetter,
) {
	steps, own := w.oauth.loginSteps, w.oauth.account
	steps.TOTP, own.Factors.TOTP, steps.Enrolled, own.Factors.Enrolled = totp, totp, enrolled, enrolled
	w.oauth.loginPage.Passkeys, own.Factors.Passkeys = passkeys, passkeys
	own.Keys, steps.Passwords, own.Passwords = keys, passwords, passwords
	if totp == nil {
		steps.TOTP, own.Factors.TOTP = nil, nil
	}
	if passkeys == nil {
		w.oauth.loginPage.Passkeys, own.Factors.Passkeys = nil, nil
	}
}

const script = `<script>alert(1)</script>`

// settle makes a user who has set their own password.
func (w *pageTest) settle(name string, state iamapi.UserState) {
	_, hash := stand()
	w.user(name, hash, state)
	w.edit(name, func(u *iamapi.User) { u.Annotations = nil })
}

func (w *pageTest) changePassword(_ context.Context, c iamlogin.PasswordChange) error {
	switch {
	case c.Current == "wrong":
		return iam.ErrCredentials
	case len(c.New) < 8:
		return iam.ErrPolicy
	}
	go w.edit(c.User.Name, func(o *iamapi.User) { o.Annotations, o.Spec.Password = nil, otherHash() }) // the feed brings the change later
	return nil
}

// browserUser is a user with a browser.
type browserUser struct {
	t       testing.TB
	site    *pageTest
	cookies map[string]*http.Cookie
	header  map[string]string
	// at is the address of the page that the user sees, and page the page.
	at   string
	page reply
}

func (w *pageTest) person(t testing.TB) *browserUser {
	return &browserUser{t: t, site: w, cookies: map[string]*http.Cookie{}, header: map[string]string{"Accept": "text/html,*/*;q=0.8"}}
}

func (p *browserUser) send(method, address, body string, header map[string]string) reply {
	p.t.Helper()
	if !strings.HasPrefix(address, "http") {
		address = p.site.URL + address
	}
	r := request(p.t, method, address, body, p.header)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	for _, c := range p.cookies {
		r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
	}
	out := do(p.t, r)
	for _, c := range (&http.Response{Header: out.header}).Cookies() {
		if p.cookies[c.Name] = c; c.MaxAge < 0 {
			delete(p.cookies, c.Name)
		}
	}
	p.at, p.page = r.URL.Path, out
	return out
}

func (p *browserUser) open(address string) reply {
	p.t.Helper()
	return p.send(http.MethodGet, address, "", nil)
}

// fields returns the fields of the form of a step, and its address.
func (p *browserUser) fields(step string) (url.Values, string) {
	p.t.Helper()
	doc, err := html.Parse(bytes.NewReader([]byte(p.page.text)))
	if err != nil {
		p.t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.DataAtom != atom.Form {
			continue
		}
		v := url.Values{}
		for in := range n.Descendants() {
			if in.DataAtom == atom.Input && attr(in, "name") != "" {
				v.Set(attr(in, "name"), attr(in, "value"))
			}
		}
		if step == "" || v.Get("step") == step || v.Get("step") == "" && attr(n, "id") == "act" {
			base, _ := url.Parse(p.site.URL + p.at)
			to, err := base.Parse(attr(n, "action"))
			if err != nil {
				p.t.Fatal(err)
			}
			if step != "" {
				v.Set("step", step)
			}
			return v, to.String()
		}
	}
	p.t.Fatalf("the page %s has no form for %q: %d %s", p.at, step, p.page.code, p.page.text)
	return nil, ""
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// answer fills in the form of a step of the current page, and sends it.
func (p *browserUser) answer(step string, pairs ...string) reply {
	p.t.Helper()
	v, to := p.fields(step)
	return p.send(http.MethodPost, to, with(v, pairs...).Encode(), map[string]string{"Sec-Fetch-Site": "same-origin"})
}

// login logs the user in on the login page.
func (p *browserUser) login(name string) *browserUser {
	p.t.Helper()
	p.open("/oauth/login")
	if r := p.answer("password", "username", name, "password", password); r.code != http.StatusSeeOther ||
		p.cookies[browser.HostPrefix+browser.SessionCookie] == nil {
		p.t.Fatalf("login: %d %s", r.code, r.text)
	}
	return p
}

// loggedIn returns the user of the browser's session.
func (p *browserUser) loggedIn() string {
	p.t.Helper()
	r := request(p.t, http.MethodGet, p.site.URL, "", nil)
	for _, c := range p.cookies {
		r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
	}
	b, err := p.site.oauth.logins.Of(r)
	if err != nil {
		p.t.Fatal(err)
	}
	if b == nil {
		return ""
	}
	return b.User.Name
}

func (r reply) says(t testing.TB, code int, parts ...string) {
	t.Helper()
	if r.code != code {
		t.Fatalf("status %d, want %d: %s", r.code, code, r.text)
	}
	for _, s := range parts {
		if !strings.Contains(r.text, html.EscapeString(s)) && !strings.Contains(r.text, s) {
			t.Errorf("%q is not said in: %s", s, r.text)
		}
	}
}

func (r reply) goes(t testing.TB, to string) {
	t.Helper()
	if r.code != http.StatusSeeOther && r.code != http.StatusFound || r.header.Get("Location") != to {
		t.Fatalf("%d to %q, want %q: %s", r.code, r.header.Get("Location"), to, r.text)
	}
}

// otherHash is the hash of another password.
var otherHash = sync.OnceValue(func() string {
	h, err := bcrypt.GenerateFromPassword([]byte(newPass), bcrypt.MinCost)
	if err != nil {
		panic(err)
	}
	return string(h)
})
