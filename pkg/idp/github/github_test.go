package github_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/github"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

// hub is a GitHub with one user, as its REST API describes it.
type hub struct {
	*idptest.Server
	me     map[string]any
	emails []any
	orgs   []any
	teams  []any
}

func newHub() *hub {
	h := &hub{Server: idptest.NewServer(), me: map[string]any{"id": 583231, "login": "jane", "name": "Jane Doe", "email": "public@example.com"}}
	h.Plain, h.FormOnly, h.NoRefresh = true, true, true
	h.emails = []any{
		map[string]any{
			"email":    "old@example.com",
			"primary":  false,
			"verified": true,
		},
		map[string]any{"email": "jane@example.com", "primary": true, "verified": true},
	}
	h.setGroups([]string{"acme", "acme/dev"})
	h.Mux.HandleFunc("GET /login/oauth/authorize", h.Authorize)
	h.Mux.HandleFunc("POST /login/oauth/access_token", h.Token)
	h.Mux.HandleFunc("GET /api/v3/user", h.Protected(func(w http.ResponseWriter, _ *http.Request) { idptest.WriteJSON(w, http.StatusOK, h.me) }))
	for path, list := range map[string]*[]any{"emails": &h.emails, "orgs": &h.orgs, "teams": &h.teams} {
		h.Mux.HandleFunc("GET /api/v3/user/"+path, h.Protected(func(w http.ResponseWriter, r *http.Request) {
			size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
			page, _ := strconv.Atoi(r.URL.Query().Get("page"))
			from := min((page-1)*size, len(*list))
			idptest.WriteJSON(w, http.StatusOK, append([]any{}, (*list)[from:min(from+size, len(*list))]...))
		}))
	}
	return h
}

// setGroups makes organizations from names, and teams from "organization/team".
func (h *hub) setGroups(names []string) {
	h.orgs, h.teams = []any{}, []any{}
	for i, name := range names {
		if org, slug, ok := strings.Cut(name, "/"); ok {
			h.teams = append(h.teams, map[string]any{"id": i, "slug": slug, "organization": map[string]any{"login": org}})
		} else {
			h.orgs = append(h.orgs, map[string]any{"id": 1000 + i, "login": name})
		}
	}
}

func (h *hub) double(o idptest.Outside) *idptest.Double {
	return &idptest.Double{
		Handler: h.Mux,
		Settings: map[string]any{
			"clientID":     idptest.ClientID,
			"clientSecret": idptest.ClientSecret,
			"scopes":       []string{"user:email", "read:org"},
			"rootCAData":   o.CA,
			"timeout":      "20s",
			"groupsPrefix": "gh:",
			"endpoint": map[string]any{
				"authURL":     o.Base + "/login/oauth/authorize",
				"tokenURL":    o.Base + "/login/oauth/access_token",
				"userInfoURL": o.Base + "/api/v3/user",
			},
		},
		Required:  []string{"clientID", "clientSecret"},
		Addresses: []string{"endpoint.authURL", "endpoint.tokenURL", "endpoint.userInfoURL"},
		Secrets:   idptest.ServerSecrets(),
		Impatient: map[string]any{"timeout": "300ms"},
		Wrong: map[string]func(map[string]any){
			"secret":      func(s map[string]any) { s["clientSecret"] = "other" },
			"authorities": func(s map[string]any) { delete(s, "rootCAData") },
		},
		Person:    idp.Identity{Subject: "583231", Username: "jane", DisplayName: "Jane Doe", Email: "jane@example.com", Groups: []string{"gh:acme", "gh:acme/dev"}},
		NoNonce:   true,
		Rename:    func() { h.me["login"] = "june" },
		SetGroups: h.setGroups,
		Remove:    h.Remove,
	}
}

func TestSuite(t *testing.T) {
	idptest.Suite{Type: github.Type(), Start: func(_ *testing.T, o idptest.Outside) *idptest.Double { return newHub().double(o) }}.Run(t)
}

func TestSuiteWithTokensThatExpire(t *testing.T) { // of a GitHub App
	idptest.Suite{Type: github.Type(), Start: func(_ *testing.T, o idptest.Outside) *idptest.Double {
		h := newHub()
		h.NoRefresh = false
		d := h.double(o)
		d.Settings["organizations"] = []string{"other", "ACME"}
		d.SetGroups = func(names []string) { h.setGroups(append([]string{"acme"}, names...)) }
		return d
	}}.Run(t)
}

func TestSettingsWithoutEffectAreRefused(t *testing.T) { // U33
	for _, text := range []string{"organizations: [acme]\nscopes: [user:email]", "groupsPrefix: x", "scopes: ['a b']",
		"organizations: [acme]\ngroupsPrefix: 'kapis:'"} {
		if _, err := github.Type().Open([]byte("clientID: a\nclientSecret: b\n"+text), idp.OpenOptions{}); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

func TestTheAddressesAreThoseOfGitHub(t *testing.T) {
	p, err := github.Type().Open([]byte("clientID: a\nclientSecret: b\norganizations: [acme]"), idp.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	address, err := p.(idp.Redirect).Begin(t.Context(), idp.Begin{Callback: "https://ks.example/cb", State: "s", Verifier: "v", LoginHint: "jane"})
	if err != nil || !strings.HasPrefix(address, "https://github.com/login/oauth/authorize?") || !strings.Contains(address, "scope=user%3Aemail+read%3Aorg") ||
		!strings.Contains(address, "login=jane") {
		t.Errorf("%s, %v", address, err)
	}
}

func TestGroupsOfAllPagesAreRead(t *testing.T) {
	idptest.WithDouble(t, github.Type(), func(o idptest.Outside) *idptest.Double {
		h := newHub()
		names := make([]string, 250)
		for i := range names {
			names[i] = fmt.Sprintf("org%04d", i)
		}
		h.setGroups(names)
		return h.double(o)
	}, func(login func() (*idp.Identity, error)) {
		who, err := login()
		if err != nil || len(who.Groups) != 250 || !slices.Contains(who.Groups, "gh:org0249") {
			t.Errorf("%+v, %v", who, err)
		}
	})
}

func TestAnEmailThatIsNotThePrimaryVerifiedOneIsNotTaken(t *testing.T) {
	for _, emails := range [][]any{nil, {map[string]any{"email": "ceo@example.com", "primary": true, "verified": false}},
		{map[string]any{"email": "ceo@example.com", "primary": false, "verified": true}}} {
		idptest.WithDouble(t, github.Type(), func(o idptest.Outside) *idptest.Double {
			h := newHub()
			h.emails = emails
			return h.double(o)
		}, func(login func() (*idp.Identity, error)) {
			if who, err := login(); err != nil || who.Email != "" {
				t.Errorf("%v: %+v, %v", emails, who, err)
			}
		})
	}
}

func TestSomebodyOfAnotherOrganizationIsRefused(t *testing.T) {
	idptest.WithDouble(t, github.Type(), func(o idptest.Outside) *idptest.Double {
		d := newHub().double(o)
		d.Settings["organizations"] = []string{"other"}
		return d
	}, func(login func() (*idp.Identity, error)) {
		if who, err := login(); !errors.Is(err, idp.ErrRefused) {
			t.Errorf("%+v, %v", who, err)
		}
	})
}
