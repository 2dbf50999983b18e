package oauth

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
)

// The console's button of a CAS server leads to casServerURL + "/login?service=" + redirectURL, and its server redeems a ticket.
func TestTheConsoleLogsInAsAtACASServer(t *testing.T) {
	w := newPageTest(t)
	w.knows("alice")
	p := w.person(t)
	client, redirect := w.oauth.Clients.Console("github")
	if client != "kubesphere" || redirect != consoleURI {
		t.Fatalf("%q %q", client, redirect)
	}
	state := p.away("/oauth/login/github/login?service=" + url.QueryEscape(redirect))
	q := p.open("/oauth/callback/github?code=c&state=" + state).handedOver(t)
	if q.Get("ticket") == "" || q.Has("code") {
		t.Fatal(q)
	}
	at := w.URL + "/oauth/callback/github?ticket=" + url.QueryEscape(q.Get("ticket"))
	if r := do(t, request(t, http.MethodGet, at, "", nil)); r.code != http.StatusOK || r.str("access_token") == "" {
		t.Fatalf("%d %s", r.code, r.text)
	}
	if r := do(t, request(t, http.MethodGet, at, "", nil)); r.code != http.StatusUnauthorized {
		t.Error("the ticket works twice")
	}
}

// S40: the service parameter of CAS is restricted to the same list as redirect URIs.
func TestServicesAreTheConsolesOnly(t *testing.T) {
	w := newPageTest(t)
	p := w.person(t)
	for _, to := range []string{"https://evil.example", "//evil.example", consoleURI + "@evil.example", harborURI} {
		r := p.open("/oauth/login/github/login?service=" + url.QueryEscape(to) + "&redirect_uri=" + url.QueryEscape(consoleURI))
		if r.says(t, http.StatusBadRequest, "not one that the platform"); r.header.Get("Location") != "" {
			t.Errorf("%q: sent to %s", to, r.header.Get("Location"))
		}
	}
}

func TestOnlyRegisteredAddressesOfTheConsoleAreNamed(t *testing.T) {
	w := newPageTest(t)
	for provider, want := range map[string]string{"github": consoleURI, "google": "", "hub": "", "": ""} {
		if _, got := w.oauth.Clients.Console(provider); got != want {
			t.Errorf("%q: %q", provider, got)
		}
	}
	var names []string
	for _, c := range w.oauth.Clients.All() {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, " "); !strings.Contains(got, "kubesphere") || len(names) < 3 {
		t.Errorf("clients %s", got)
	}
}

// The console is the trusted client that has the console's address for a provider, however many trusted clients there are.
func TestTheConsoleIsFoundAmongTrustedClients(t *testing.T) {
	const other, plain = "https://second.example/oauth/redirect/google", "https://portal.example/cb"
	w := newPageTest(t)
	w.knows("alice")
	with := func(clients ...client.Client) {
		registry, err := client.NewRegistry(fake.NewClientset().CoreV1().Secrets("x"), clients, session.Lifetime{MaxAge: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		w.oauth.Clients, w.oauth.consoleCodes.Clients = registry, registry
	}
	console := client.Client{Name: "kubesphere", Secret: "kubesphere", Trusted: true, RedirectURIs: []string{consoleURI}}
	with(client.Client{Name: "a-portal", Secret: "x", Trusted: true, RedirectURIs: []string{plain}}, console,
		client.Client{Name: "second", Secret: "x", Trusted: true, RedirectURIs: []string{other}},
		client.Client{Name: "app", Secret: "x", RedirectURIs: []string{"https://app.example/redirect/github", "https://app.example/redirect/hidden"}})
	for provider, want := range map[string]string{"github": "kubesphere " + consoleURI, "google": "second " + other, "hidden": " "} {
		if client, redirect := w.oauth.Clients.Console(provider); client+" "+redirect != want {
			t.Errorf("%s: %q %q", provider, client, redirect)
		}
	}
	p := w.person(t)
	for _, to := range []string{plain, other, "https://app.example/redirect/github"} { // of another client, of another provider, of a client that is not trusted
		p.open("/oauth/login/github?redirect_uri="+url.QueryEscape(to)).says(t, http.StatusBadRequest, "not one that the platform")
	}
	code := func() string {
		return p.open("/oauth/callback/github?code=c&state=" + p.away("/oauth/login/github?redirect_uri="+url.QueryEscape(consoleURI))).handedOver(t).Get("code")
	}
	at := w.URL + "/oauth/callback/github?code="
	r := do(t, request(t, http.MethodGet, at+url.QueryEscape(code()), "", nil))
	if r.code != http.StatusOK || payload(t, r.str("access_token"))["client_id"] != "kubesphere" {
		t.Fatalf("%d %s", r.code, r.text)
	}
	for claim, change := range map[string]func(*client.Client){
		"a client that is not trusted any more": func(c *client.Client) { c.Trusted = false },
		"a client that is given nothing":        func(c *client.Client) { c.GrantMethod = "deny" },
	} {
		with(console)
		late, changed := code(), console
		change(&changed)
		with(changed)
		if r := do(t, request(t, http.MethodGet, at+url.QueryEscape(late), "", nil)); r.code != http.StatusUnauthorized {
			t.Errorf("%s: %d", claim, r.code)
		}
		p.open("/oauth/login/github?redirect_uri="+url.QueryEscape(consoleURI)).says(t, http.StatusBadRequest, "not one that the platform")
		if client, _ := w.oauth.Clients.Console("github"); client != "" {
			t.Errorf("%s is the console", claim)
		}
	}
}
