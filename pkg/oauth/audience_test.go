package oauth

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/grant"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/token"
)

const helmURI = "https://helm.example/cb"

// loginAt logs a user in at a client that has a secret, in a browser whose user has consented already.
func (s *server) loginAt(t testing.TB, browser string, c *client.Client, scope string) reply {
	t.Helper()
	uri := c.RedirectURIs[0]
	asked, err := client.GrantScopes(c, scope)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.sessions.Consent(t.Context(), browser, c.Name, c.ConsentScopes(asked)); err != nil {
		t.Fatal(err)
	}
	code := s.code(t, browser, harborAsks("client_id", c.Name, "redirect_uri", uri, "scope", scope))
	return s.post(t, redemption(code, "client_id", c.Name, "client_secret", string(c.Secret), "redirect_uri", uri), nil)
}

// T9700-8: tokens are for the API if the client's registration says so, whatever scopes the client asks for.
func TestAccessTokensAreForWhatTheirClientIsRegisteredFor(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	b := s.browser(t, "alice")
	for name, test := range map[string]struct {
		client, scope, granted string
		api                    bool
	}{
		"NoRestrictions":         {"harbor", "openid", "openid", true},
		"NoRestrictionsAndAsked": {"harbor", "openid api", "openid api", true},
		"RestrictedToIt":         {"helm", "openid", "openid", true},
		"RestrictedToItAndAsked": {"helm", "openid api", "openid api", true},
		"RestrictedToLess":       {"argo", "openid groups", "openid groups", false},
		"RestrictedToLessAsks":   {"argo", "openid api", "openid", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.loginAt(t, b, s.oauth.Clients.Client(test.client), test.scope)
			again := s.post(t, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {r.str("refresh_token")}, "client_id": {test.client},
				"client_secret": {string(s.oauth.Clients.Client(test.client).Secret)}}, nil)
			for _, r := range []reply{r, again} {
				if r.code != http.StatusOK || r.str("scope") != test.granted {
					t.Fatalf("%d %s", r.code, r.text)
				}
				if _, err := s.verifier.Access(r.str("access_token")); (err == nil) != test.api {
					t.Errorf("for the API: %v", err)
				}
			}
		})
	}
	own := s.post(t, url.Values{"grant_type": {"password"}, "username": {"alice"}, "password": {password},
		"client_id": {"od:d +c"}, "client_secret": {"s:e %c+r"}, "scope": {"openid"}}, nil)
	if _, err := s.verifier.Access(own.str("access_token")); err != nil {
		t.Error("a trusted client:", err)
	}
}

// T9700-8: a token for the userinfo endpoint returns the claims and ends the login there, and is not valid elsewhere.
func TestTokensForUserinfoOpenNothingElse(t *testing.T) {
	f := newReplicas(t, 1, withMembers)
	s := f.servers[0]
	b := s.browser(t, "alice")
	argo := s.oauth.Clients.Client("argo")
	access := s.loginAt(t, b, argo, "openid groups").str("access_token")
	if aud, _ := payload(t, access)["aud"].([]any); len(aud) != 1 || aud[0] != issuerURL+"/oauth/userinfo" {
		t.Errorf("aud %v", payload(t, access)["aud"])
	}
	for range 2 { // the second time it is cached as valid
		if _, err := s.verifier.Access(access); !errors.Is(err, token.ErrInvalid) || !strings.Contains(err.Error(), `"argo"`) {
			t.Errorf("the API takes it: %v", err)
		}
		if r := s.userinfo(t, access); r.code != http.StatusOK || r.str("sub") != "uid-alice" {
			t.Errorf("userinfo: %d %s", r.code, r.text)
		}
	}
	asArgo := url.Values{"token": {access}, "client_id": {"argo"}, "client_secret": {"argo-secret"}}
	if r := s.form(t, "/oauth/introspect", asArgo, nil); r.body["active"] != true || r.str("aud") != issuerURL+"/oauth/userinfo" {
		t.Errorf("introspection: %s", r.text)
	}
	if got, r := s.review(t, reviewOf("authentication.k8s.io/v1", access, "")); r.code != http.StatusOK || got.Status.Authenticated {
		t.Errorf("a TokenReview: %s", r.text)
	}
	wants{400, "invalid_grant"}.check(t, s.post(t, url.Values{"grant_type": {grant.TokenExchange}, "client_id": {"kubesphere"}, "client_secret": {"kubesphere"},
		"subject_token": {access}, "subject_token_type": {grant.TypeAccessToken}, "audience": {"member1"}}, nil))
	do(t, request(t, http.MethodGet, s.URL+"/oauth/logout", "", map[string]string{"Authorization": "Bearer " + access}))
	if code := s.userinfo(t, access).code; code != http.StatusOK {
		t.Errorf("it logs its person out: %d", code)
	}
	if r := s.form(t, "/oauth/revoke", asArgo, nil); r.code != http.StatusOK {
		t.Errorf("revocation: %d %s", r.code, r.text)
	}
	if code := s.userinfo(t, access).code; code != http.StatusUnauthorized {
		t.Errorf("it is good after its revocation: %d", code)
	}
}

// T9068-4: the resource that a client asks for is the audience of its tokens, or the request is refused.
func TestResourceIsWhatTheTokenIsFor(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	for client, resources := range map[string]map[string]bool{
		"harbor": {"": true, issuerURL: true, "kapis:host": true, issuerURL + "/oauth/userinfo": false, "https://x.example": false},
		"argo":   {"": true, issuerURL: false, "kapis:host": false, issuerURL + "/oauth/userinfo": true, "https://x.example": false},
	} {
		for resource, good := range resources {
			if e := s.oauth.tokenEndpoint.Issuer.CheckResource(s.oauth.Clients.Client(client), protocol.Form{"resource": resource}); (e == nil) != good || e != nil &&
				e.Name != protocol.InvalidTarget {
				t.Errorf("%s, %q: %v", client, resource, e)
			}
		}
	}
}

// A client whose tokens would not be valid anywhere gets an error.
func TestClientThatIsNotForTheAPICannotActForItself(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	wants{400, "unauthorized_client"}.check(t, s.post(t, credentialsOf("narrow", "narrow-secret-1234"), nil))
	if r := s.post(t, with(credentialsOf("harbor", "harbor-secret-1234"), "scope", "api"), nil); r.code != http.StatusOK || r.str("scope") != "api" {
		t.Errorf("%d %s", r.code, r.text)
	}
}

// A user who lets a client act as them is told so, even if the client does not ask for that scope.
func TestPeopleAreToldThatAClientActsAsThem(t *testing.T) {
	const en, zh = "act here as you, with all your rights", "以您的身份、凭您的全部权限使用本平台"
	w := newPageTest(t)
	p := w.person(t).login("alice")
	helm := harborAsks("client_id", "helm", "redirect_uri", helmURI, "scope", "openid")
	p.open("/oauth/authorize?"+helm.Encode()).says(t, http.StatusOK, "Allow helm?", "know who you are", en)
	p.send(http.MethodGet, "/oauth/authorize?"+helm.Encode(), "", map[string]string{"Accept-Language": "zh-CN"}).says(t, http.StatusOK, zh)
	if r := p.open("/oauth/authorize?" + argoAsks().Encode()); strings.Contains(r.text, en) || !strings.Contains(r.text, "Allow argo?") {
		t.Error("it is said of a client that can't")
	}
	_, code := w.deviceCode(t)
	p.open("/oauth/device")
	p.answer("find", "user_code", code).says(t, http.StatusOK, "Connect cli?", en)
}

// A consent to fewer scopes is no consent to the API: when the client is later registered for it, the user is asked again.
func TestConsentIsAskedForAgainWhenAClientGetsTheAPI(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	b := s.browser(t, "alice")
	if err := s.sessions.Consent(t.Context(), b, "helm", []string{"openid"}); err != nil {
		t.Fatal(err)
	}
	if r := s.authorize(t, b, harborAsks("client_id", "helm", "redirect_uri", helmURI, "scope", "openid", "prompt", "none")); r.sentTo(t, helmURI).
		Get("error") != "consent_required" {
		t.Errorf("%d %s", r.code, r.header.Get("Location"))
	}
}

// A device may ask for the API by name, and gets no more than its user was shown.
func TestDevicesAskForTheAPI(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	r := s.begin(t, url.Values{"client_id": {"cli"}, "scope": {"openid api"}})
	if _, _, err := s.person(t, s.browser(t, "alice"), r.str("user_code"), s.approve); err != nil {
		t.Fatal(err)
	}
	got := s.poll(t, r.str("device_code"))
	if _, err := s.verifier.Access(got.str("access_token")); err != nil || got.str("scope") != "openid api" {
		t.Errorf("%s: %v", got.text, err)
	}
}
