package oauth

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/oauth/discovery"
)

// T8414-1, T8414-2, T8414-3, TDisc-1, T9207-2: the documents.
func TestDiscoveryDocuments(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server/base"} {
		r := do(t, request(t, http.MethodGet, s.URL+path, "", nil))
		if r.code != http.StatusOK || r.str("issuer") != issuerURL || strings.Contains(r.header.Get("Cache-Control"), "no-store") {
			t.Fatalf("%s: %d %s", path, r.code, r.text)
		}
		for name, v := range r.body {
			if list, ok := v.([]any); ok && len(list) == 0 {
				t.Errorf("%s is an empty list", name)
			}
			address, ok := v.(string)
			if !ok || name == "issuer" {
				continue
			}
			rest, ok := strings.CutPrefix(address, issuerURL)
			if !ok {
				t.Errorf("%s is %s", name, address)
			}
			if got := do(t, request(t, http.MethodGet, s.URL+rest, "", nil)); got.code == http.StatusNotFound {
				t.Errorf("%s, %s: not there", name, rest)
			}
		}
		for name, want := range map[string]string{
			"response_types_supported":                       `["code"]`,
			"response_modes_supported":                       `["query"]`,
			"subject_types_supported":                        `["public"]`,
			"id_token_signing_alg_values_supported":          `["RS256"]`,
			"code_challenge_methods_supported":               `["S256"]`,
			"authorization_response_iss_parameter_supported": `true`,
			"request_uri_parameter_supported":                `false`,
			"introspection_endpoint_auth_methods_supported":  `["client_secret_basic","client_secret_post"]`,
		} {
			if got, _ := json.Marshal(r.body[name]); string(got) != want {
				t.Errorf("%s is %s", name, got)
			}
		}
		for _, name := range []string{"authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint", "end_session_endpoint",
			"revocation_endpoint", "introspection_endpoint", "device_authorization_endpoint"} {
			if r.str(name) == "" {
				t.Errorf("%s is missing", name)
			}
		}
	}
}

// TDisc-2: public keys only.
func TestKeysArePublic(t *testing.T) {
	f := newReplicas(t, 1, nil)
	r := do(t, request(t, http.MethodGet, f.servers[0].URL+"/oauth/keys", "", nil))
	keys, _ := r.body["keys"].([]any)
	if r.code != http.StatusOK || len(keys) != 1 {
		t.Fatalf("%d %s", r.code, r.text)
	}
	for name := range keys[0].(map[string]any) {
		if !slices.Contains([]string{"use", "kty", "kid", "alg", "n", "e"}, name) {
			t.Errorf("a key has %s", name)
		}
	}
}

func TestIssuerMustBeAURLThatMayStandInATokens(t *testing.T) {
	for issuer, path := range map[string]string{"https://ks.example": "", "https://ks.example/": "", "http://127.0.0.1:9090/a/b": "/a/b"} {
		if got, err := discovery.CheckIssuer(issuer); err != nil || got != path {
			t.Errorf("%s: %q, %v", issuer, got, err)
		}
	}
	for _, issuer := range []string{"", "ks.example", "ftp://ks.example", "https://", "https://ks.example?x=1", "https://ks.example/?", "https://ks.example#x",
		"https://u:canary@ks.example", "https://%zz"} {
		if _, err := discovery.CheckIssuer(issuer); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", issuer, err)
		}
	}
}

func TestOnlyTheseEndpointsVerifyCredentialsThemselves(t *testing.T) {
	for path, want := range map[string]bool{
		"/oauth/token": true, "/oauth/token/": true, "/oauth/userinfo": true, "/oauth/logout": true,
		"/oauth/authorize": true, "/oauth/revoke": true, "/oauth/introspect": true, "/oauth/device_authorization": true, "/oauth/authenticate": true,
		"/oauth/keys": false, "/oauth": false, "/oauth/tokens": false, "/oauth/token/x": false, "/kapis/oauth/token": false, "": false,
	} {
		if OwnsCredentials(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}
