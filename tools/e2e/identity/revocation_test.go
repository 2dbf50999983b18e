package identity

import (
	"net/http"
	"net/url"
	"testing"
	"time"
)

func TestTokensAreRevokedEverywhere(t *testing.T) {
	rule(t, "T7009-1", "T7009-3")
	other := replica(t)
	b := here(t)
	for _, c := range []client{harbor, desk} {
		for kind, pick := range map[string]func(tokens) string{
			"RefreshToken": func(got tokens) string { return got.Refresh },
			"AccessToken":  func(got tokens) string { return got.Access },
		} {
			t.Run(c.ID+"/"+kind, func(t *testing.T) {
				got := c.ask("scope", "openid offline_access").tokens(t, b)
				aliveAt(t, other, got.Access) // the other replica has it in mind
				a := c.revoke(t, pick(got)).is(t, http.StatusOK)
				if a.body != "" {
					t.Errorf("answered %q", a.body)
				}
				dead(t, got.Access) // at once
				c.refresh(t, got.Refresh).fails(t, 400, "invalid_grant")
				c.tokenAt(t, other, "grant_type", "refresh_token", "refresh_token", got.Refresh).fails(t, 400, "invalid_grant")
				endsEverywhere(t, got.Access, other)
				if a := harbor.introspect(t, got.Access); a.object()["active"] != false {
					t.Errorf("introspection: %s", a.body)
				}
			})
		}
	}
	t.Run("AnEarlierRefreshTokenOfTheSession", func(t *testing.T) {
		got := harbor.ask().tokens(t, b)
		next := harbor.refresh(t, got.Refresh).tokens(t)
		harbor.revoke(t, got.Refresh).is(t, http.StatusOK)
		dead(t, next.Access)
		harbor.refresh(t, next.Refresh).fails(t, 400, "invalid_grant")
	})
	t.Run("OfAClientItself", func(t *testing.T) {
		c := newClient(t, client{ID: "machine", Secret: random()})
		got := c.token(t, "grant_type", "client_credentials").tokens(t)
		c.revoke(t, got.Access).is(t, http.StatusOK)
		dead(t, got.Access)
		alive(t, c.token(t, "grant_type", "client_credentials").tokens(t).Access) // it may ask again
	})
	t.Run("AndNoOtherSessions", func(t *testing.T) {
		one, two := harbor.ask().tokens(t, b), portal.ask().tokens(t, b)
		harbor.revoke(t, one.Refresh).is(t, http.StatusOK)
		dead(t, one.Access)
		alive(t, two.Access)
		harbor.ask().tokens(t, b) // the browser's goes on as well
	})
}

func TestRevocationIsForTheTokensClient(t *testing.T) {
	rule(t, "T7009-2")
	got := harbor.ask().tokens(t, here(t))
	theirs := desk.ask().tokens(t, here(t))
	for _, token := range []string{got.Access, got.Refresh} {
		for _, c := range []client{portal, desk, console} {
			c.revoke(t, token).fails(t, 400, "invalid_grant")
		}
		client{ID: harbor.ID}.revoke(t, token).fails(t, 401, "invalid_client")
		client{ID: harbor.ID, Secret: "wrong"}.revoke(t, token).fails(t, 401, "unauthorized_client")
		call(t, http.MethodPost, issuer+"/oauth/revoke", values("token", token)).fails(t, 400, "invalid_client")
		call(t, http.MethodPost, issuer+"/oauth/revoke", values("token", token), bearer(got.Access)...).fails(t, 400, "invalid_client")
		call(t, http.MethodPost, issuer+"/oauth/revoke", values("token", token), basic(harbor.ID, "wrong")).fails(t, 401, "invalid_client")
	}
	harbor.revoke(t, theirs.Access).fails(t, 400, "invalid_grant")
	alive(t, got.Access)
	alive(t, theirs.Access)
	harbor.refresh(t, got.Refresh).tokens(t)
	call(t, http.MethodPost, issuer+"/oauth/revoke", values("token", got.Access), basic(harbor.ID, harbor.Secret)).is(t, http.StatusOK)
	dead(t, got.Access)
}

func TestATokenThatIsNoneIsRevokedAlready(t *testing.T) {
	rule(t, "T7009-4")
	got := harbor.ask().tokens(t, here(t))
	f := forge(t, got.Access)
	over := portal.ask().tokens(t, here(t))
	portal.revoke(t, over.Refresh).is(t, http.StatusOK)
	for name, token := range map[string]string{
		"Garbage": "x", "ExpiredByItsEnd": f.token(t, "exp", time.Now().Add(-time.Hour).Unix()), "OfAnotherIssuer": f.token(t, "iss", "https://evil.example"),
		"OfNoSession": f.token(t, "sid", "no-such-session"), "MadeUp": changed(got.Refresh, len(got.Refresh)-4),
	} {
		t.Run(name, func(t *testing.T) { harbor.revoke(t, token).is(t, http.StatusOK) })
	}
	portal.revoke(t, over.Refresh).is(t, http.StatusOK)
	portal.revoke(t, over.Access).is(t, http.StatusOK)
	alive(t, got.Access)
}

func TestAWrongHintPreventsNothing(t *testing.T) {
	rule(t, "T7009-5")
	for _, hint := range []string{"access_token", "refresh_token", "saml2", "%", ""} {
		for _, pick := range []func(tokens) string{func(got tokens) string { return got.Refresh }, func(got tokens) string { return got.Access }} {
			got := harbor.ask().tokens(t, here(t))
			harbor.revoke(t, pick(got), "token_type_hint", hint).is(t, http.StatusOK)
			dead(t, got.Access)
			harbor.refresh(t, got.Refresh).fails(t, 400, "invalid_grant")
		}
	}
}

func TestRevocationIsAPost(t *testing.T) {
	rule(t, "T7009-6")
	got := harbor.ask().tokens(t, here(t))
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		if a := call(t, method, issuer+"/oauth/revoke?"+harbor.form("token", got.Access).Encode(), harbor.form("token", got.Access)); a.status < 400 {
			t.Errorf("%s: %d", method, a.status)
		}
	}
	call(t, http.MethodGet, issuer+"/oauth/revoke", nil).is(t, http.StatusMethodNotAllowed)
	harbor.revoke(t, got.ID).fails(t, 400, "unsupported_token_type")
	harbor.revoke(t, "").fails(t, 400, "invalid_request")
	call(t, http.MethodPost, issuer+"/oauth/revoke", `{"token":"x"}`, "Content-Type: application/json").fails(t, 415, "invalid_request")
	call(t, http.MethodPost, issuer+"/oauth/revoke?"+values("token", got.Access).Encode(), harbor.form()).fails(t, 400, "invalid_request")
	twice := harbor.form()
	twice["token"] = []string{got.Access, got.Refresh}
	call(t, http.MethodPost, issuer+"/oauth/revoke", twice).fails(t, 400, "invalid_request")
	call(t, http.MethodPost, issuer+"/oauth/revoke", url.Values{}).fails(t, 400, "invalid_client")
	alive(t, got.Access)
}
