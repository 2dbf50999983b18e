package oauth

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"kapis.dev/ks-apiserver/pkg/oauth/claim"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/grant"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// T8414-4: each value that the documents list is exercised here, and a value that is not exercised fails the test.
func TestEverythingAdvertisedWorks(t *testing.T) {
	f := newReplicas(t, 1, withMembers)
	s := f.servers[0]
	doc := do(t, request(t, http.MethodGet, s.URL+"/.well-known/openid-configuration", "", nil)).body
	b := s.browser(t, "alice")
	ok := func(r reply) bool {
		return r.code == http.StatusOK && (r.str("access_token") != "" || r.body["active"] == true || r.text == "")
	}
	access, refresh := s.login(t)
	basic := map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("harbor:harbor-secret-1234"))}
	bare := func(form url.Values) url.Values { return with(form, "client_id", "", "client_secret", "") }
	tokenOf := func() string { return s.redeem(t, s.code(t, b, harborAsks()), nil).str("access_token") }
	exercises := map[string]map[string]func() bool{
		"grant_types_supported": {
			"authorization_code": func() bool { return ok(s.redeem(t, s.code(t, b, harborAsks()), nil)) },
			"refresh_token":      func() bool { return ok(s.post(t, renewal(refresh), nil)) },
			"client_credentials": func() bool { return ok(s.post(t, credentialsOf("harbor", "harbor-secret-1234"), nil)) },
			grantDevice: func() bool {
				r := s.begin(t, url.Values{"client_id": {"cli"}})
				_, _, err := s.person(t, b, r.str("user_code"), s.approve)
				return err == nil && ok(s.poll(t, r.str("device_code")))
			},
			grant.TokenExchange: func() bool {
				return ok(s.post(t, url.Values{"grant_type": {grant.TokenExchange}, "client_id": {"kubesphere"}, "client_secret": {"kubesphere"},
					"subject_token": {access}, "subject_token_type": {grant.TypeAccessToken}, "audience": {"member1"}}, nil))
			},
			"password": func() bool { return ok(s.post(t, consoleLogin("alice", password), nil)) },
			"otp": func() bool { // a success needs a factor, and is tested with the second factors
				return s.post(t, url.Values{"grant_type": {"otp"}, "client_id": {"kubesphere"}, "client_secret": {"kubesphere"}, "otp": {"1"}, "token": {"x"}}, nil).
					str("error") ==
					protocol.InvalidGrant
			},
		},
		"token_endpoint_auth_methods_supported": {
			"client_secret_basic": func() bool { return ok(s.post(t, bare(redemption(s.code(t, b, harborAsks()))), basic)) },
			"client_secret_post":  func() bool { return ok(s.redeem(t, s.code(t, b, harborAsks()), nil)) },
			"none":                func() bool { return ok(s.post(t, spaRedeems(s.code(t, b, spaAsks())), nil)) },
		},
		"revocation_endpoint_auth_methods_supported": {
			"client_secret_basic": func() bool { return ok(s.form(t, "/oauth/revoke", url.Values{"token": {tokenOf()}}, basic)) },
			"client_secret_post":  func() bool { return ok(s.form(t, "/oauth/revoke", asHarbor(tokenOf()), nil)) },
			"none": func() bool {
				r := s.post(t, spaRedeems(s.code(t, b, spaAsks())), nil)
				return ok(s.form(t, "/oauth/revoke", url.Values{"client_id": {"spa"}, "token": {r.str("refresh_token")}}, nil))
			},
		},
		"introspection_endpoint_auth_methods_supported": {
			"client_secret_basic": func() bool { return ok(s.form(t, "/oauth/introspect", url.Values{"token": {tokenOf()}}, basic)) },
			"client_secret_post":  func() bool { return ok(s.form(t, "/oauth/introspect", asHarbor(tokenOf()), nil)) },
		},
		"response_types_supported": {"code": func() bool { return s.code(t, b, harborAsks()) != "" }},
		"response_modes_supported": {"query": func() bool { return s.code(t, b, harborAsks("response_mode", "query")) != "" }},
		"subject_types_supported":  {"public": func() bool { return payload(t, access)["sub"] == "uid-alice" }},
		"id_token_signing_alg_values_supported": {"RS256": func() bool {
			_, err := s.verifier.Identity(s.redeem(t, s.code(t, b, harborAsks()), nil).str("id_token"))
			return err == nil
		}},
		"code_challenge_methods_supported": {"S256": func() bool { return ok(s.post(t, spaRedeems(s.code(t, b, spaAsks())), nil)) }},
		"prompt_values_supported": {
			"none":    func() bool { return s.code(t, b, harborAsks("prompt", "none")) != "" },
			"login":   func() bool { return asked(s.authorize(t, b, harborAsks("prompt", "login"))) == protocol.LoginRequired },
			"consent": func() bool { return asked(s.authorize(t, b, harborAsks("prompt", "consent"))) == "consent_required" },
			"select_account": func() bool {
				return asked(s.authorize(t, b, harborAsks("prompt", "select_account"))) == protocol.LoginRequired
			},
		},
		"scopes_supported": {}, "claims_supported": {},
	}
	for _, scope := range client.SupportedScopes() {
		exercises["scopes_supported"][scope] = func() bool {
			return s.redeem(t, s.code(t, b, harborAsks("scope", scope)), nil).str("scope") == scope
		}
	}
	all := s.redeem(t, s.code(t, b, harborAsks("scope", "openid profile email groups", "nonce", "n")), nil)
	id := payload(t, all.str("id_token"))
	for _, claim := range claim.Supported() {
		if claim != "email_verified" { // verified in the test of TCore-10
			exercises["claims_supported"][claim] = func() bool { return id[claim] != nil }
		}
	}
	for name, v := range doc {
		list, isList := v.([]any)
		if !isList {
			continue
		}
		for _, one := range list {
			if do := exercises[name][one.(string)]; do == nil || !do() {
				t.Errorf("%s: %v does not work, or is not exercised", name, one)
			}
		}
		if len(list) != len(exercises[name]) {
			t.Errorf("%s: something works that is not advertised: %v", name, list)
		}
	}
	for _, e := range s.oauth.endpoints() {
		if e.meta == "" && !isPage("/oauth"+e.path) && !slices.Contains([]string{"/authenticate"}, e.path) {
			t.Errorf("%s is not advertised", e.path)
		}
	}
}

// S35, T6749-13: of a million values, no two are equal.
func TestValuesAreNeverTheSame(t *testing.T) {
	f := newReplicas(t, 1, nil)
	seen := make(map[string]bool, 1_000_000)
	for range 1_000_000 {
		name := f.servers[0].sessions.NewName()
		if random := name[len(name)-26:]; seen[random] || len(name) < 35 {
			t.Fatalf("%s comes again, or is short", name)
		} else {
			seen[random] = true
		}
	}
	sealed := map[string]bool{}
	for range 10_000 {
		v, err := f.servers[0].oauth.sealer.Seal(grant.PurposeCode, &grant.Code{Session: "same"})
		if err != nil || sealed[v] {
			t.Fatal(v, err)
		}
		sealed[v] = true
	}
}
