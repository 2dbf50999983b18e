package identity

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
)

var errTooEarly = errors.New("it is too early")

// TestOIDCCBasicTestPlanUserinfo is about what is told of people.
func TestOIDCCBasicTestPlanUserinfo(t *testing.T) {
	rule(t, "TCore-9", "TCore-10")
	got := harbor.ask().tokens(t, here(t))
	sub := verified(t, got.ID, harbor.ID)["sub"]
	info := func(t *testing.T, a answer) map[string]any {
		t.Helper()
		if a.must(t, http.StatusOK); a.field("sub") != sub || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s, %v; want the subject %v", a.body, a.header, sub)
		}
		return a.object()
	}
	// tells compares the claims of a scope, in the ID token and at the endpoint.
	tells := func(scope string, want ...string) func(t *testing.T) {
		return func(t *testing.T) {
			got := harbor.ask("scope", scope).tokens(t, here(t))
			id, told := verified(t, got.ID, harbor.ID), info(t, get(t, "/oauth/userinfo", got.Access))
			for _, name := range []string{"name", "preferred_username", "email", "groups"} {
				if _, ok := told[name]; ok != slices.Contains(want, name) {
					t.Errorf("userinfo tells %s: %v", name, ok)
				}
				if _, ok := id[name]; ok != slices.Contains(want, name) && name != "groups" {
					t.Errorf("the ID token tells %s: %v", name, ok)
				}
			}
			_, access := claims(t, got.Access)
			if private := strings.ToLower(toText(t, access)); !slices.Contains(want, "email") && strings.Contains(private, "@example.com") {
				t.Errorf("the access token tells the e-mail: %s", private)
			}
		}
	}
	modules(t, []module{
		{"UserInfoGet", func(t *testing.T) { info(t, get(t, "/oauth/userinfo", got.Access)) }},
		{"UserInfoPostHeader", func(t *testing.T) {
			info(t, call(t, http.MethodPost, issuer+"/oauth/userinfo", nil, bearer(got.Access)...))
		}},
		{"UserInfoWithoutToken", func(t *testing.T) {
			if a := get(t, "/oauth/userinfo", "").is(t, http.StatusUnauthorized); a.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("challenge %q", a.header.Get("WWW-Authenticate"))
			}
		}},
		{"UserInfoWithABadToken", func(t *testing.T) {
			if a := get(t, "/oauth/userinfo", got.ID).is(t, http.StatusUnauthorized); !strings.Contains(a.header.Get("WWW-Authenticate"), `error="invalid_token"`) {
				t.Errorf("challenge %q", a.header.Get("WWW-Authenticate"))
			}
		}},
		{"UserInfoWithoutScope", func(t *testing.T) {
			plain := harbor.ask("scope", "profile").tokens(t, here(t))
			a := get(t, "/oauth/userinfo", plain.Access).fails(t, http.StatusForbidden, "insufficient_scope")
			if !strings.Contains(a.header.Get("WWW-Authenticate"), `error="insufficient_scope"`) {
				t.Errorf("challenge %q", a.header.Get("WWW-Authenticate"))
			}
		}},
		{"ScopeOpenid", tells("openid")},
		{"ScopeProfile", tells("openid profile", "name", "preferred_username")},
		{"ScopeEmail", tells("openid email", "email")},
		{"ScopeAll", tells("openid profile email", "name", "preferred_username", "email")},
	})
	// Nobody has verified what an administrator wrote.
	if told := info(t, get(t, "/oauth/userinfo", got.Access)); told["email"] != alice+"@example.com" || told["email_verified"] == true ||
		told["preferred_username"] != alice {
		t.Errorf("%v", told)
	}
}

// TestOIDCCRefreshToken is the module of that name.
func TestOIDCCRefreshToken(t *testing.T) {
	rule(t, "TCore-11")
	q := harbor.ask()
	first := q.tokens(t, here(t))
	before := verified(t, first.ID, harbor.ID)
	iat, _ := before["iat"].(float64)
	awaitNextSecond(t, int64(iat))
	next := harbor.refresh(t, first.Refresh).tokens(t)
	after := verified(t, next.ID, harbor.ID)
	for _, name := range []string{"iss", "sub", "aud", "auth_time", "azp"} {
		if toText(t, before[name]) != toText(t, after[name]) {
			t.Errorf("%s was %v, and is %v", name, before[name], after[name])
		}
	}
	if now, _ := after["iat"].(float64); now <= iat {
		t.Errorf("iat was %v, and is %v", iat, now)
	}
	if nonce, ok := after["nonce"]; ok && nonce != before["nonce"] {
		t.Errorf("nonce was %v, and is %v", before["nonce"], nonce)
	}
	if next.Refresh == first.Refresh || next.Access == first.Access {
		t.Error("a token is the same as before")
	}
	portal.refresh(t, next.Refresh).fails(t, http.StatusBadRequest, "invalid_grant")
	alive(t, next.Access)
}

// TestOIDCCBasicTestPlanCodes is about codes that come again, or from somebody else.
func TestOIDCCBasicTestPlanCodes(t *testing.T) {
	rule(t, "T6749-15", "T6749-16", "T6749-17", "S39", "S44")
	refuses := func(name string, change func(q *request, code string) answer) func(t *testing.T) {
		return func(t *testing.T) {
			q := harbor.ask()
			code := q.code(t, here(t))
			storesNothing(t, func() { change(q, code).fails(t, http.StatusBadRequest, name) })
			q.redeem(t, code).tokens(t) // it was not used up by who may not have it
		}
	}
	modules(t, []module{
		{"AuthCodeReuse", func(t *testing.T) {
			q := harbor.ask()
			code := q.code(t, here(t))
			got := q.redeem(t, code).tokens(t)
			alive(t, got.Access)
			storesNothing(t, func() { q.redeem(t, code).fails(t, http.StatusBadRequest, "invalid_grant") })
			dead(t, got.Access)
			harbor.refresh(t, got.Refresh).fails(t, http.StatusBadRequest, "invalid_grant")
		}},
		{"OfAnotherClient", refuses("invalid_grant", func(q *request, code string) answer {
			stolen := *q
			stolen.client = portal
			return stolen.redeem(t, code, "redirect_uri", q.redirect())
		})},
		{"OtherRedirectUri", refuses("invalid_grant", func(q *request, code string) answer {
			return q.redeem(t, code, "redirect_uri", "https://harbor.example/other")
		})},
		{"EnsureRedirectUriInTokenRequest", refuses("invalid_grant", func(q *request, code string) answer { return q.redeem(t, code, "redirect_uri", "") })},
		{"WithoutVerifier", refuses("invalid_grant", func(q *request, code string) answer { return q.redeem(t, code, "code_verifier", "") })},
		{"OtherVerifier", refuses("invalid_grant", func(q *request, code string) answer { return q.redeem(t, code, "code_verifier", random()) })},
		{"Downgrade", func(t *testing.T) {
			q := harbor.withoutProof()
			code := q.code(t, here(t))
			storesNothing(t, func() {
				q.redeem(t, code, "code_verifier", random()).fails(t, http.StatusBadRequest, "invalid_grant")
			})
		}},
		{"Plain", func(t *testing.T) {
			q := harbor.ask("code_challenge", random(), "code_challenge_method", "plain")
			q.refused(t, here(t).open(t, q.address()), "invalid_request")
		}},
	})
}

func toText(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
