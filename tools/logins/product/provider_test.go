package product

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"kapis.dev/ks-apiserver/tools/logins/chromium"
	"kapis.dev/ks-apiserver/tools/logins/oidc"
)

// logInThere logs a user in at the OpenID provider, which asks for the name, and for consent to the product.
func logInThere(b *chromium.Browser, name string) {
	b.Press(`a.button[href*="login/op"]`)
	b.Until(`document.readyState === "complete" && document.querySelector("input[name=login]") !== null`)
	b.Do(chromedp.SendKeys(`input[name=login]`, name), chromedp.SendKeys(`input[name=password]`, "any"+kb.Enter))
	b.Until(`document.readyState === "complete" && document.querySelector("input[name=prompt][value=consent]") !== null`)
	b.Do(chromedp.Click(`form button[type=submit]`))
}

// U30, U31, U34, TLogout-6: a user of another OpenID provider chooses their name, and logs out here and there.
func TestAPersonOfAnotherProviderRegistersAndLogsOut(t *testing.T) {
	op := oidc.Start(
		t,
		oidc.Options{Dir: "../oidc", Callback: product.issuer + "/oauth/callback/op", Logout: product.issuer + "/oauth/logout", Method: "client_secret_basic"},
	)
	addProvider(t, "op", fmt.Sprintf("name: op\ntype: OIDCIdentityProvider\ndisplayName: Other People\nmappingMethod: manual\nprovider:\n  issuer: %s\n"+
		"  clientID: %s\n  clientSecret: %s\n  scopes: [openid, profile, email, groups]\n  groupsKey: groups\n  groupsPrefix: 'op:'\n  getUserInfo: true\n",
		op.Issuer, oidc.ClientID, op.Secret))
	forget(t, usersPath+"/jane-of-op")
	p := newParty(t, "argo-cd")
	b := open(t, chromium.Phone(), p)
	j := p.begin()
	b.Visit(j.address)
	b.Sees("Log in")
	b.Inspect("product-login-op")
	logInThere(b, "jane")
	b.Sees("Complete your account")
	b.Inspect("product-register")
	if name := chromium.Eval[string](b, `document.querySelector("#username").value`); name != "jane" {
		t.Errorf("%q is offered", name)
	}
	b.TabTo("#username")
	b.Types(kb.End)
	b.Types("-of-op", kb.Enter)
	p.allow(b)
	token, who := p.finish(t, b, j)
	if who.Name != "jane-of-op" || who.Email != "jane@example.com" || !slices.Contains(who.Groups, "op:staff") {
		t.Errorf("%+v", who)
	}
	if _, err := p.provider.UserInfo(p.ctx, p.TokenSource(p.ctx, token)); err != nil {
		t.Error(err)
	}

	var metadata struct {
		End string `json:"end_session_endpoint"`
	}
	if err := p.provider.Claims(&metadata); err != nil {
		t.Fatal(err)
	}
	hint, _ := token.Extra("id_token").(string)
	b.Visit(metadata.End + "?" + url.Values{"id_token_hint": {hint}, "post_logout_redirect_uri": {p.URL + "/bye"}, "state": {"a&b="}}.Encode())
	b.Until(`location.href.startsWith(` + fmt.Sprintf("%q", op.Issuer) + `) && document.readyState === "complete" && ` +
		`document.querySelector("[name=logout][value=yes]") !== null`)
	b.Do(chromedp.Click(`[name=logout][value=yes]`))
	b.Sees("Goodbye")
	if q := <-p.left; q.Get("state") != "a&b=" {
		t.Errorf("he came back with %v", q)
	}
	if _, err := p.refresh(token); err == nil {
		t.Error("after the logout, the refresh token works")
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, product.issuer+"/oauth/userinfo", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	token.SetAuthHeader(req)
	if resp, err := p.client().Do(req); err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("after the logout, the access token: %v %v", resp, err)
	}

	j = p.begin()
	b.Visit(j.address)
	b.Sees("Log in")
	logInThere(b, "jane") // it asks again
	p.allow(b)
	if _, who := p.finish(t, b, j); who.Name != "jane-of-op" {
		t.Errorf("%+v", who)
	}
	b.Quiet(product.issuer, p.URL) // the other provider's pages are its own affair
}
