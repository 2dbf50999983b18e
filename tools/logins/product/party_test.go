package product

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"kapis.dev/ks-apiserver/tools/logins/chromium"
)

// party is a relying party: an application that people log in to, with the libraries that others wrote.
type party struct {
	*httptest.Server
	oauth2.Config
	provider *oidc.Provider
	ctx      context.Context
	// landed receives the query of each user who returns from a login, and left of each who returns from a logout.
	landed, left chan url.Values
}

// claims are what a party learns about a user.
type claims struct {
	Name   string   `json:"preferred_username"`
	Email  string   `json:"email"`
	Groups []string `json:"groups"`
	Nonce  string   `json:"nonce"`
}

// newParty starts an application, and registers it as a client of the product that asks people for their consent.
func newParty(t *testing.T, name string) *party {
	t.Helper()
	p := &party{landed: make(chan url.Values, 4), left: make(chan url.Values, 4)}
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		title := "Welcome"
		switch r.URL.Path {
		case "/cb":
			p.landed <- r.URL.Query()
		case "/bye":
			title = "Goodbye"
			p.left <- r.URL.Query()
		default:
			w.WriteHeader(http.StatusNoContent) // a picture for the tab
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<!doctype html><html lang="en"><title>%s</title><h1>%[1]s</h1>`, title)
	}))
	t.Cleanup(p.Close)
	roots := x509.NewCertPool()
	roots.AddCert(product.authority)
	p.ctx = oidc.ClientContext(
		t.Context(),
		&http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			IdleConnTimeout: time.Minute}}, // long before the server gives up a connection, on which a POST would fail
	)
	var err error
	if p.provider, err = oidc.NewProvider(p.ctx, product.issuer); err != nil {
		t.Fatal(err)
	}
	p.Config = oauth2.Config{ClientID: name, ClientSecret: rand.Text(), Endpoint: p.provider.Endpoint(), RedirectURL: p.URL + "/cb",
		Scopes: []string{oidc.ScopeOpenID, "profile", "email", "groups", oidc.ScopeOfflineAccess}}
	configure(t, "oauthclient", name, fmt.Sprintf("name: %s\nsecret: %s\nredirectURIs: [%s]\npostLogoutRedirectURIs: [%s/bye]\n"+
		"scopeRestrictions: [openid, profile, email, groups, offline_access]\ngrantMethod: prompt\n", name, p.ClientSecret, p.RedirectURL, p.URL))
	await(t, "the client "+name, func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.AuthCodeURL("s"), http.NoBody)
		if err != nil {
			return err
		}
		resp, err := p.client().Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("the authorization endpoint answers %s", resp.Status)
		}
		return nil
	})
	return p
}

func (p *party) client() *http.Client { return p.ctx.Value(oauth2.HTTPClient).(*http.Client) }

// journey is one login that a party began.
type journey struct{ address, state, nonce, verifier string }

func (p *party) begin() journey {
	j := journey{state: rand.Text() + "&=", nonce: rand.Text(), verifier: oauth2.GenerateVerifier()}
	j.address = p.AuthCodeURL(j.state, oidc.Nonce(j.nonce), oauth2.S256ChallengeOption(j.verifier))
	return j
}

// finish completes the login of a user who returns, and returns their tokens and claims.
func (p *party) finish(t *testing.T, b *chromium.Browser, j journey) (*oauth2.Token, claims) {
	t.Helper()
	b.Sees("Welcome")
	q := <-p.landed
	if q.Get("state") != j.state || q.Get("iss") != product.issuer {
		t.Fatalf("he came back with %v", q)
	}
	token, err := p.Exchange(p.ctx, q.Get("code"), oauth2.VerifierOption(j.verifier))
	if err != nil {
		t.Fatal(err)
	}
	c := p.claims(t, token)
	if c.Nonce != j.nonce {
		t.Errorf("the nonce is %q", c.Nonce)
	}
	return token, c
}

// claims verifies an ID token.
func (p *party) claims(t *testing.T, token *oauth2.Token) claims {
	t.Helper()
	raw, _ := token.Extra("id_token").(string)
	id, err := p.provider.VerifierContext(p.ctx, &oidc.Config{ClientID: p.ClientID}).Verify(p.ctx, raw)
	if err != nil {
		t.Fatalf("the ID token: %v", err)
	}
	var c claims
	if err := id.Claims(&c); err != nil {
		t.Fatal(err)
	}
	return c
}

// refresh gets the next tokens.
func (p *party) refresh(token *oauth2.Token) (*oauth2.Token, error) {
	return p.TokenSource(p.ctx, &oauth2.Token{RefreshToken: token.RefreshToken, Expiry: time.Unix(1, 0)}).Token()
}

// allow lets the party in, on the page that asks.
func (p *party) allow(b *chromium.Browser) {
	b.Sees("Allow " + p.ClientID + "?")
	b.TabTo(`[value=allow]`)
	b.Types(kb.Enter)
}
