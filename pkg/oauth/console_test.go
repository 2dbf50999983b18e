package oauth

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// The console's button of a CAS server leads to casServerURL + "/login?service=" + redirectURL, and its server redeems a ticket.
func TestTheConsoleLogsInAsAtACASServer(t *testing.T) {
	w := newSite(t)
	w.knows("alice")
	p := w.person(t)
	client, redirect := w.oauth.Console("github")
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

// S40: what CAS calls a service is held to the same list as a redirect URI.
func TestServicesAreTheConsolesOnly(t *testing.T) {
	w := newSite(t)
	p := w.person(t)
	for _, to := range []string{"https://evil.example", "//evil.example", consoleURI + "@evil.example", harborURI} {
		r := p.open("/oauth/login/github/login?service=" + url.QueryEscape(to) + "&redirect_uri=" + url.QueryEscape(consoleURI))
		if r.says(t, http.StatusBadRequest, "not one that the platform"); r.header.Get("Location") != "" {
			t.Errorf("%q: sent to %s", to, r.header.Get("Location"))
		}
	}
}

func TestOnlyRegisteredAddressesOfTheConsoleAreNamed(t *testing.T) {
	w := newSite(t)
	for provider, want := range map[string]string{"github": consoleURI, "google": "", "hub": "", "": ""} {
		if _, got := w.oauth.Console(provider); got != want {
			t.Errorf("%q: %q", provider, got)
		}
	}
	if w.oauth.FirstParty = "none"; true {
		if client, redirect := w.oauth.Console("github"); client+redirect != "" {
			t.Errorf("without a console: %q %q", client, redirect)
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
