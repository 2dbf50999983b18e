package identity

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
)

// works is how a test tries each thing that a list of the document names.
type works map[string]func(t *testing.T)

// TestWhatIsAdvertisedWorks goes through the document: what it names is used, and what a test uses it names.
func TestWhatIsAdvertisedWorks(t *testing.T) {
	rule(t, "T8414-4")
	doc := document(t, issuer, openidDocument)
	b := here(t)
	everything := newUser(t, "everything")
	patchUser(t, everything, `{"spec":{"lang":"zh","groups":["staff"]}}`)
	full := harbor.ask("scope", "openid profile email groups offline_access").tokens(t, logIn(t, everything))
	_, payload := claims(t, full.ID)

	lists := map[string]works{
		"grant_types_supported": {
			"authorization_code": func(t *testing.T) { harbor.ask().tokens(t, b) },
			"refresh_token":      func(t *testing.T) { harbor.refresh(t, harbor.ask().tokens(t, b).Refresh).tokens(t) },
			"client_credentials": func(t *testing.T) { harbor.token(t, "grant_type", "client_credentials").tokens(t) },
			"password":           func(t *testing.T) { passwordLogin(t, bob) },
			"otp":                secondFactor,
			"urn:ietf:params:oauth:grant-type:device_code": func(t *testing.T) {
				d := desk.device(t).must(t, 200)
				b.letIn(t, d.field("user_code"))
				desk.poll(t, d.field("device_code")).tokens(t)
			},
		},
		"token_endpoint_auth_methods_supported":         authentication("/oauth/token", "grant_type", "none"),
		"revocation_endpoint_auth_methods_supported":    authentication("/oauth/revoke", "token", "x"),
		"introspection_endpoint_auth_methods_supported": authentication("/oauth/introspect", "token", "x"),
		"response_types_supported":                      {"code": func(t *testing.T) { harbor.ask("response_type", "code").code(t, b) }},
		"response_modes_supported":                      {"query": func(t *testing.T) { harbor.ask("response_mode", "query").code(t, b) }},
		"subject_types_supported": {"public": func(t *testing.T) {
			_, one := claims(t, harbor.ask().tokens(t, b).ID)
			_, two := claims(t, portal.ask().tokens(t, b).ID)
			if one["sub"] != two["sub"] {
				t.Error("two clients know two subjects")
			}
		}},
		"id_token_signing_alg_values_supported": {"RS256": func(t *testing.T) {
			if header, _ := claims(t, full.ID); header["alg"] != "RS256" {
				t.Errorf("%v", header)
			}
		}},
		"code_challenge_methods_supported": {"S256": func(t *testing.T) { desk.ask().tokens(t, b) }},
		"prompt_values_supported": {
			"none": func(t *testing.T) { harbor.ask("prompt", "none").code(t, b) },
			"login": func(t *testing.T) {
				b.open(t, harbor.ask("prompt", "login").address()).shows(t, 200, "Confirm that it is you")
			},
			"consent": func(t *testing.T) { b.open(t, harbor.ask("prompt", "consent").address()).shows(t, 200, "Allow") },
			"select_account": func(t *testing.T) {
				b.open(t, harbor.ask("prompt", "select_account").address()).shows(t, 200, "Log in")
			},
		},
		"scopes_supported": {}, "claims_supported": {},
	}
	for _, scope := range texts(doc, "scopes_supported") {
		lists["scopes_supported"][scope] = func(t *testing.T) {
			if got := harbor.ask("scope", scope).tokens(t, b); got.Scope != scope {
				t.Errorf("granted %q", got.Scope)
			}
		}
	}
	for _, claim := range texts(doc, "claims_supported") {
		lists["claims_supported"][claim] = func(t *testing.T) {
			if payload[claim] == nil {
				t.Errorf("an ID token with all scopes lacks it: %v", payload)
			}
		}
	}
	for name, value := range doc {
		if _, isList := value.([]any); !isList {
			continue
		}
		for _, one := range texts(doc, name) {
			t.Run(name+"/"+one, func(t *testing.T) {
				if do := lists[name][one]; do != nil {
					do(t)
				} else {
					t.Error("nobody tries it")
				}
			})
		}
	}
	for name, list := range lists {
		for one := range list {
			if !slices.Contains(texts(doc, name), one) {
				t.Errorf("%s: %s is not advertised", name, one)
			}
		}
	}
	t.Run("Claims", func(t *testing.T) { // the other way round
		for claim := range payload {
			if !slices.Contains(texts(doc, "claims_supported"), claim) {
				t.Errorf("ID tokens have %q, and it is not advertised", claim)
			}
		}
	})
	t.Run("Endpoints", func(t *testing.T) {
		for name, value := range doc {
			if at, ok := value.(string); ok && (strings.HasSuffix(name, "_endpoint") || name == "jwks_uri") {
				get, post := call(t, http.MethodGet, at, nil), call(t, http.MethodPost, at, "")
				absent := func(a answer) bool {
					return slices.Contains([]int{http.StatusNotFound, http.StatusForbidden, http.StatusMethodNotAllowed}, a.status) || a.status >= 500
				}
				if absent(get) && absent(post) {
					t.Errorf("%s: %d %s; %d %s", name, get.status, clip(get.body), post.status, clip(post.body))
				}
			}
		}
	})
	t.Run("WhatIsNotAdvertisedDoesNotWork", notAdvertised)
}

// authentication tries the ways in which clients prove themselves at an endpoint: none is refused as a client.
func authentication(path string, pairs ...string) works {
	known := func(t *testing.T, a answer) {
		t.Helper()
		if a.status == http.StatusUnauthorized || a.field("error") == "invalid_client" {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	w := works{
		"client_secret_basic": func(t *testing.T) {
			known(t, call(t, http.MethodPost, issuer+path, values(pairs...), basic(harbor.ID, harbor.Secret)))
		},
		"client_secret_post": func(t *testing.T) { known(t, call(t, http.MethodPost, issuer+path, harbor.form(pairs...))) },
	}
	if path != "/oauth/introspect" {
		w["none"] = func(t *testing.T) { known(t, call(t, http.MethodPost, issuer+path, desk.form(pairs...))) }
	}
	return w
}

// secondFactor gives a user an authenticator app, and logs him in with it as the console does.
func secondFactor(t *testing.T) {
	name := newUser(t, "factor")
	b := logIn(t, name)
	p := b.submit(t, b.open(t, "/oauth/account"), "step", "totp")
	_, rest, _ := strings.Cut(p.body, `<code class="secret">`)
	secret, _, _ := strings.Cut(rest, "</code>")
	secret = strings.ReplaceAll(secret, " ", "")
	code := func(at time.Time) string {
		c, err := totp.GenerateCode(secret, at)
		if err != nil {
			t.Fatalf("%v: %s", err, clip(p.body))
		}
		return c
	}
	now := time.Now()
	if p = b.submit(t, p, "step", "totp-confirm", "code", code(now)); p.status != http.StatusOK || strings.Contains(p.body, `role="alert"`) {
		t.Fatalf("the app is not taken: %d %q", p.status, p.heading())
	}
	grant := []string{"grant_type", "password", "username", name, "password", password}
	var half answer
	storesNothing(t, func() { half = console.token(t, grant...).fails(t, 400, "mfa_required") })
	storesNothing(t, func() {
		console.token(t, "grant_type", "otp", "token", half.field("mfa_token"), "otp", "000000").fails(t, 400, "invalid_grant")
		dead(t, half.field("mfa_token"))
	})
	alive(t, console.token(t, "grant_type", "otp", "token", half.field("mfa_token"), "otp", code(now.Add(30*time.Second))).tokens(t).Access)
}

func notAdvertised(t *testing.T) {
	b := here(t)
	for _, grant := range []string{"implicit", "urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:ietf:params:oauth:grant-type:saml2-bearer",
		"urn:openid:params:grant-type:ciba",
		"urn:ietf:params:oauth:grant-type:token-exchange", "urn:ietf:params:oauth:grant-type:uma-ticket", "none"} {
		storesNothing(t, func() {
			console.token(t, "grant_type", grant, "subject_token", "x", "assertion", "x").fails(t, 400, "unsupported_grant_type")
		})
	}
	for name, q := range map[string]*request{
		"request_not_supported":      harbor.ask("request", "eyJhbGciOiJub25lIn0.e30."),
		"request_uri_not_supported":  harbor.ask("request_uri", "https://harbor.example/request"),
		"registration_not_supported": harbor.ask("registration", "{}"),
	} {
		storesNothing(t, func() { q.refused(t, b.open(t, q.address()), name) })
	}
	for _, path := range []string{"/oauth/register", "/oauth/par", "/oauth/clients", "/.well-known/webfinger", "/oauth/check_session", "/oauth/backchannel"} {
		if a := get(t, path, ""); a.status != http.StatusNotFound && a.status != http.StatusForbidden {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	for _, assertion := range []string{"client_secret_jwt", "private_key_jwt"} {
		storesNothing(t, func() {
			call(t, http.MethodPost, issuer+"/oauth/token", values("grant_type", "client_credentials", "client_id", harbor.ID, "client_assertion", assertion,
				"client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")).fails(t, 401, "invalid_client")
		})
	}
}
