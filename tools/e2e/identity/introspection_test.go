package identity

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// inactive fails the test unless the answer says that a token is not good, and nothing more.
func inactive(t *testing.T, a answer) {
	t.Helper()
	if a.status != http.StatusOK || strings.TrimSpace(a.body) != `{"active":false}` {
		t.Errorf("%d %s", a.status, clip(a.body))
	}
}

func TestWhoMayIntrospect(t *testing.T) {
	rule(t, "T7662-1", "T7662-2")
	got := harbor.ask().tokens(t, here(t))
	ask := func(form map[string][]string, headers ...string) answer {
		v := values("token", got.Access)
		for k, x := range form {
			v[k] = x
		}
		return call(t, http.MethodPost, issuer+"/oauth/introspect", v, headers...)
	}
	for name, a := range map[string]answer{
		"Nobody":                  ask(nil),
		"APublicClient":           ask(desk.form()),
		"AWrongSecretByBasic":     ask(nil, basic(harbor.ID, "wrong")),
		"AWrongSecret":            ask(values("client_id", harbor.ID, "client_secret", "wrong")),
		"NoSecret":                ask(values("client_id", harbor.ID)),
		"APublicClientWithBasic":  ask(nil, basic(desk.ID, "")),
		"AnUnknownClientByBasic":  ask(nil, basic("nobody", "x")),
		"AnAdministratorsAccount": ask(nil, basic("admin", product.AdminPassword)),
	} {
		if a.status != http.StatusUnauthorized || strings.Contains(a.body, "active") || a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: %d %s", name, a.status, clip(a.body))
		}
	}
	for _, a := range []answer{ask(values("client_id", "nobody")), ask(nil, bearer(got.Access)...), ask(nil, bearer(admin(t))...)} {
		a.fails(t, 400, "invalid_client") // no token proves a client
	}
	t.Run("WhatItIsTold", func(t *testing.T) {
		info := ask(nil, basic(harbor.ID, harbor.Secret)).must(t, 200).object()
		_, payload := claims(t, got.Access)
		for _, k := range []string{"scope", "client_id", "username", "exp", "iat", "sub", "iss", "jti"} {
			if info[k] == nil || info[k] != payload[k] {
				t.Errorf("%s is %v, and %v in the token", k, info[k], payload[k])
			}
		}
		if info["active"] != true || info["token_type"] != "Bearer" || info["username"] != alice || info["iss"] != issuer {
			t.Errorf("%v", info)
		}
		if info := console.introspect(t, got.Access).object(); info["active"] != true { // the platform's own
			t.Errorf("%v", info)
		}
	})
	t.Run("AnotherClientIsToldNothing", func(t *testing.T) {
		inactive(t, portal.introspect(t, got.Access))
		inactive(t, portal.introspect(t, passwordLogin(t, bob).Access))
	})
}

func TestEveryCheckOfATokenCounts(t *testing.T) {
	rule(t, "T7662-2", "T7662-3")
	got := harbor.ask().tokens(t, here(t))
	f := forge(t, got.Access)
	now := time.Now()
	for name, token := range map[string]string{
		"Expired": f.token(t, "exp", now.Add(-time.Hour).Unix()), "NotYet": f.token(t, "nbf", now.Add(time.Hour).Unix()),
		"OtherAudience": f.token(t, "aud", "kapis:member"),
		"OtherIssuer":   f.token(t, "iss", "https://evil.example"), "OtherKind": f.token(t, "#typ", "JWT"), "NoSession": f.token(t, "sid", "none"),
		"Tampered": changed(got.Access, len(got.Access)-9), "RefreshToken": got.Refresh, "IDToken": got.ID, "Garbage": "x", "LongGarbage": strings.Repeat("a.", 9000),
	} {
		t.Run(name, func(t *testing.T) { inactive(t, harbor.introspect(t, token)) })
	}
	if a := harbor.introspect(t, got.Access); a.object()["active"] != true {
		t.Errorf("the good one: %s", a.body)
	}
	t.Run("Revoked", func(t *testing.T) {
		gone := harbor.ask().tokens(t, here(t))
		harbor.revoke(t, gone.Refresh).is(t, 200)
		inactive(t, harbor.introspect(t, gone.Access))
	})
	t.Run("DisabledUser", func(t *testing.T) {
		name := newUser(t, "disabled")
		in := harbor.ask().tokens(t, logIn(t, name))
		if a := harbor.introspect(t, in.Access); a.object()["active"] != true {
			t.Fatalf("%s", a.body)
		}
		call(t, http.MethodPatch, issuer+usersPath+"/"+name+"/status", `{"status":{"state":"Disabled"}}`,
			"Content-Type: application/merge-patch+json", "Authorization: Bearer "+admin(t)).must(t, 200)
		endsEverywhere(t, in.Access, replica(t))
		inactive(t, harbor.introspect(t, in.Access))
		if status := review(t, in.Access); status["authenticated"] == true {
			t.Errorf("TokenReview: %v", status)
		}
	})
}

func TestIntrospectionIsAFormForJSON(t *testing.T) {
	rule(t, "T7662-4")
	got := harbor.ask().tokens(t, here(t))
	a := harbor.introspect(t, got.Access).must(t, 200)
	if kind := a.header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		t.Errorf("of type %q", kind)
	}
	call(t, http.MethodGet, issuer+"/oauth/introspect", nil).is(t, http.StatusMethodNotAllowed)
	call(
		t,
		http.MethodPost,
		issuer+"/oauth/introspect",
		`{"token":"x"}`,
		"Content-Type: application/json",
		basic(harbor.ID, harbor.Secret),
	).fails(t, 415, "invalid_request")
	call(t, http.MethodPost, issuer+"/oauth/introspect?"+values("token", got.Access).Encode(), harbor.form()).fails(t, 400, "invalid_request")
	harbor.introspect(t, "").fails(t, 400, "invalid_request")
	if a := call(t, http.MethodPost, issuer+"/oauth/introspect", harbor.form("token", got.Access, "token_type_hint",
		"refresh_token")); a.object()["active"] != true {
		t.Errorf("with a wrong hint: %s", a.body)
	}
}

// review asks as kube-apiserver's webhook does, and returns the status.
func review(t *testing.T, token string) map[string]any {
	t.Helper()
	body, err := json.Marshal(map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": map[string]any{"token": token}})
	if err != nil {
		t.Fatal(err)
	}
	a := call(t, http.MethodPost, issuer+"/oauth/authenticate", string(body), "Content-Type: application/json").must(t, 200)
	status, _ := a.object()["status"].(map[string]any)
	if status == nil {
		t.Fatalf("no status: %s", a.body)
	}
	return status
}

func TestTokenReviews(t *testing.T) {
	rule(t, "T7662-5")
	got := harbor.ask().tokens(t, here(t))
	good := review(t, got.Access)
	who, _ := good["user"].(map[string]any)
	if good["authenticated"] != true || who["username"] != alice || who["uid"] != uidOf(t, alice) {
		t.Errorf("the good one: %v", good)
	}
	f := forge(t, got.Access)
	gone := portal.ask().tokens(t, here(t))
	portal.revoke(t, gone.Access)
	for name, token := range map[string]string{
		"Nothing": "", "Garbage": "x", "Expired": f.token(t, "exp", time.Now().Add(-time.Hour).Unix()), "OtherAudience": f.token(t, "aud", "kapis:member"),
		"Refresh": got.Refresh,
		"IDToken": got.ID, "Revoked": gone.Access, "Tampered": changed(got.Access, len(got.Access)-9), "Long": strings.Repeat("x", 20<<10),
		"SomebodyElse": f.token(t, "sub", uidOf(t, "admin"), "username", "admin"),
	} {
		t.Run(name, func(t *testing.T) {
			if status := review(t, token); status["authenticated"] == true || status["user"] != nil && len(status["user"].(map[string]any)) > 0 {
				t.Errorf("%v", status)
			}
		})
	}
}
