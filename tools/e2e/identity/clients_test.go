package identity

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// library is golang.org/x/oauth2 with coreos/go-oidc, which kube-apiserver, Argo CD, Harbor and many others are clients with.
type library struct {
	*gooidc.Provider
	ctx context.Context
}

func newLibrary(t *testing.T) *library {
	t.Helper()
	ctx := gooidc.ClientContext(t.Context(), &http.Client{Transport: wire})
	p, err := gooidc.NewProvider(ctx, issuer) // discovery, which compares the issuer
	if err != nil {
		t.Fatal(err)
	}
	return &library{p, ctx}
}

func (l *library) config(c client, scopes ...string) *oauth2.Config {
	return &oauth2.Config{ClientID: c.ID, ClientSecret: c.Secret, Endpoint: l.Endpoint(), RedirectURL: c.RedirectURIs[0], Scopes: scopes}
}

// check verifies the ID token of an answer, and compares what the userinfo endpoint says.
func (l *library) check(t *testing.T, c client, token *oauth2.Token, nonce string) *gooidc.IDToken {
	t.Helper()
	raw, _ := token.Extra("id_token").(string)
	id, err := l.Verifier(&gooidc.Config{ClientID: c.ID}).Verify(l.ctx, raw)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Name string `json:"preferred_username"`
	}
	if err := id.Claims(&said); err != nil || id.Nonce != nonce || said.Name != alice {
		t.Errorf("nonce %q, %+v, %v", id.Nonce, said, err)
	}
	info, err := l.UserInfo(l.ctx, oauth2.StaticTokenSource(token))
	if err != nil || info.Subject != id.Subject || info.Email != alice+"@example.com" {
		t.Errorf("%+v, %v", info, err)
	}
	return id
}

func TestGoClientsLogPeopleIn(t *testing.T) {
	l := newLibrary(t)
	scopes := []string{gooidc.ScopeOpenID, "profile", "email", gooidc.ScopeOfflineAccess}
	for name, c := range map[string]client{"WithASecret": harbor, "WithoutASecret": desk} {
		t.Run(name, func(t *testing.T) {
			b := logIn(t, alice)
			conf := l.config(c, scopes...)
			verifier, state, nonce := oauth2.GenerateVerifier(), random(), random()
			p := b.open(t, conf.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), gooidc.Nonce(nonce)))
			back := p.leads(t, conf.RedirectURL)
			if back.Get("state") != state || back.Get("iss") != issuer {
				t.Fatalf("%v", back)
			}
			token, err := conf.Exchange(l.ctx, back.Get("code"), oauth2.VerifierOption(verifier))
			if err != nil {
				t.Fatal(err)
			}
			id := l.check(t, c, token, nonce)
			alive(t, token.AccessToken)

			token.Expiry = time.Now().Add(-time.Minute)
			next, err := conf.TokenSource(l.ctx, token).Token()
			if err != nil || next.AccessToken == token.AccessToken || next.RefreshToken == token.RefreshToken {
				t.Fatalf("refresh: %v", err)
			}
			if again := l.check(t, c, next, ""); again.Subject != id.Subject {
				t.Errorf("%s, and %s before", again.Subject, id.Subject)
			}

			var endpoints struct {
				Logout string `json:"end_session_endpoint"`
			}
			if err := l.Claims(&endpoints); err != nil {
				t.Fatal(err)
			}
			raw, _ := next.Extra("id_token").(string)
			b.open(t, endpoints.Logout+"?"+url.Values{"id_token_hint": {raw}}.Encode()).shows(t, http.StatusOK, "You are logged out")
			b.open(t, conf.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier))).shows(t, http.StatusOK, "Log in")
		})
	}
}

// An application on somebody's machine listens on whichever port is free (RFC 8252, 7.3).
func TestGoClientsOfTheDesktopLogPeopleIn(t *testing.T) {
	l := newLibrary(t)
	got := make(chan url.Values, 1)
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Query() }))
	defer app.Close()
	conf := l.config(desk, gooidc.ScopeOpenID, "profile", "email")
	conf.RedirectURL = app.URL + "/cb"
	verifier := oauth2.GenerateVerifier()
	p := here(t).open(t, conf.AuthCodeURL("s", oauth2.S256ChallengeOption(verifier)))
	p.leads(t, conf.RedirectURL)
	call(t, http.MethodGet, p.to.String(), nil).must(t, http.StatusOK)
	token, err := conf.Exchange(l.ctx, (<-got).Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		t.Fatal(err)
	}
	l.check(t, desk, token, "")
}

func TestGoClientsOfDevicesLogPeopleIn(t *testing.T) {
	l := newLibrary(t)
	conf := l.config(desk, gooidc.ScopeOpenID, "profile", "email") // the library sends no secret with a device's request
	a, err := conf.DeviceAuth(l.ctx)
	if err != nil {
		t.Fatal(err)
	}
	here(t).letIn(t, a.UserCode)
	a.Interval = 1 // it waits before it asks for the first time
	token, err := conf.DeviceAccessToken(l.ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	l.check(t, desk, token, "")
}

func TestGoClientsActForThemselves(t *testing.T) {
	l := newLibrary(t)
	for name, style := range map[string]oauth2.AuthStyle{"InTheHeader": oauth2.AuthStyleInHeader, "InTheForm": oauth2.AuthStyleInParams,
		"FoundOut": oauth2.AuthStyleAutoDetect} {
		t.Run(name, func(t *testing.T) {
			conf := clientcredentials.Config{ClientID: harbor.ID, ClientSecret: harbor.Secret, TokenURL: l.Endpoint().TokenURL, AuthStyle: style}
			token, err := conf.Token(l.ctx)
			if err != nil || token.AccessToken == "" || token.RefreshToken != "" {
				t.Fatalf("%v", err)
			}
			conf.ClientSecret = "wrong"
			if _, err := conf.Token(l.ctx); err == nil {
				t.Error("a wrong secret is taken")
			}
		})
	}
}
