package oauth

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// TLogout-6, S36, S37: after a logout on one replica the session is refused on the other, with its refresh token.
func TestLogoutEndsTheWholeSessionEverywhere(t *testing.T) {
	f := newReplicas(t, 2, nil)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		access, refresh := f.servers[0].login(t)
		other, _ := f.servers[0].login(t)
		r := do(t, request(t, method, f.servers[0].URL+"/oauth/logout", "", map[string]string{"Authorization": "Bearer " + access}))
		if r.code != http.StatusOK || r.text != `{"message":"success"}` {
			t.Errorf("%d %s", r.code, r.text)
		}
		for _, s := range f.servers {
			if code := s.userinfo(t, access).code; code != http.StatusUnauthorized {
				t.Errorf("userinfo %d", code)
			}
			wants{400, "invalid_grant"}.check(t, s.post(t, renewal(refresh), nil))
			if s.userinfo(t, other).code != http.StatusOK {
				t.Error("the other session of the user is over")
			}
		}
	}
}

// TLogout-1 to TLogout-5, S40: a request without proof ends no session, and the browser is redirected only to URLs that
// a client registered.
func TestLogoutNeedsAProofAndRedirectsToWhatIsRegistered(t *testing.T) {
	const registered = "https://app.example/bye?a=b"
	for name, test := range map[string]struct {
		bearer, hint string // "good", "bad" or ""
		later        time.Duration
		query        url.Values
		code         int
		location     string
		lives        bool
	}{
		"nothing":           {"", "", 0, nil, 200, "", true},
		"an image's GET":    {"", "", 0, url.Values{"post_logout_redirect_uri": {registered}}, 200, "", true},
		"bad bearer":        {"bad", "", 0, nil, 200, "", true},
		"bad hint":          {"", "bad", 0, url.Values{"post_logout_redirect_uri": {registered}}, 200, "", true},
		"bearer":            {"good", "", 0, nil, 200, "", false},
		"hint":              {"", "good", 0, nil, 200, "", false},
		"expired hint":      {"", "good", 24 * time.Hour, nil, 200, "", false},
		"bearer and target": {"good", "", 0, url.Values{"post_logout_redirect_uri": {registered}}, 302, registered, false},
		"hint, target and state": {"", "good", 0, url.Values{"post_logout_redirect_uri": {registered}, "state": {"ü &="}}, 302, registered +
			"&state=%C3%BC+%26%3D", false},
		"client_id agrees":          {"good", "", 0, url.Values{"client_id": {"od:d +c"}}, 200, "", false},
		"client_id differs":         {"good", "", 0, url.Values{"client_id": {"kubesphere"}}, 400, "", true},
		"query added":               {"good", "", 0, url.Values{"post_logout_redirect_uri": {registered + "&x=1"}}, 200, "", false},
		"evil":                      {"good", "", 0, url.Values{"post_logout_redirect_uri": {"https://evil.example"}}, 200, "", false},
		"evil, scheme left out":     {"good", "", 0, url.Values{"post_logout_redirect_uri": {"//evil.example"}}, 200, "", false},
		"evil, backslash":           {"good", "", 0, url.Values{"post_logout_redirect_uri": {`/\evil.example`}}, 200, "", false},
		"evil, one slash":           {"good", "", 0, url.Values{"post_logout_redirect_uri": {"https:evil.example"}}, 200, "", false},
		"evil, line end":            {"good", "", 0, url.Values{"post_logout_redirect_uri": {registered + "\r\nX: y"}}, 200, "", false},
		"target twice":              {"good", "", 0, url.Values{"post_logout_redirect_uri": {registered, registered}}, 400, "", true},
		"prefix of what is allowed": {"good", "", 0, url.Values{"post_logout_redirect_uri": {"https://app.example/bye"}}, 200, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newReplicas(t, 1, nil)
			s := f.servers[0]
			r := s.post(t, url.Values{"grant_type": {"password"}, "username": {"alice"}, "password": {password},
				"client_id": {"od:d +c"}, "client_secret": {"s:e %c+r"}, "scope": {"openid"}}, nil)
			f.clock.Step(test.later)
			header := map[string]string{}
			if test.bearer != "" {
				header["Authorization"] = "Bearer " + map[string]string{"good": r.str("access_token"), "bad": "x.y.z"}[test.bearer]
			}
			q := url.Values{}
			for k, v := range test.query {
				q[k] = v
			}
			if test.hint != "" {
				q.Set("id_token_hint", map[string]string{"good": r.str("id_token"), "bad": r.str("access_token")}[test.hint])
			}
			got := do(t, request(t, http.MethodGet, s.URL+"/oauth/logout?"+q.Encode(), "", header))
			if got.code != test.code || got.header.Get("Location") != test.location || got.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%d, Location %q", got.code, got.header.Get("Location"))
			}
			if lives := len(f.names()) == 1; lives != test.lives {
				t.Errorf("the session lives: %v", lives)
			}
		})
	}
}

// T9700-12: after a form, the browser goes on with GET.
func TestLogoutByPostRedirectsWith303(t *testing.T) {
	f := newReplicas(t, 1, nil)
	r := f.servers[0].post(t, url.Values{"grant_type": {"password"}, "username": {"alice"}, "password": {password},
		"client_id": {"od:d +c"}, "client_secret": {"s:e %c+r"}, "scope": {"openid"}}, nil)
	form := url.Values{"id_token_hint": {r.str("id_token")}, "post_logout_redirect_uri": {"https://app.example/bye?a=b"}}
	got := do(t, request(t, http.MethodPost, f.servers[0].URL+"/oauth/logout", form.Encode(), nil))
	if got.code != http.StatusSeeOther || got.header.Get("Location") != "https://app.example/bye?a=b" {
		t.Errorf("%d %v", got.code, got.header)
	}
}

func TestLogoutThatCanNotBeDoneSaysSo(t *testing.T) {
	f := newReplicas(t, 1, nil)
	access, _ := f.servers[0].login(t)
	header := map[string]string{"Authorization": "Bearer " + access}
	f.setDown(true)
	wants{503, "temporarily_unavailable"}.check(t, do(t, request(t, http.MethodGet, f.servers[0].URL+"/oauth/logout", "", header)))
	f.setDown(false)
	if r := do(t, request(t, http.MethodGet, f.servers[0].URL+"/oauth/logout", "", header)); r.code != http.StatusOK || len(f.names()) != 0 {
		t.Errorf("the second attempt: %d", r.code)
	}
}

// page sends a logout request from a browser.
func (s *server) page(t testing.TB, browser string, q url.Values) reply {
	t.Helper()
	return do(t, request(t, http.MethodGet, s.URL+"/oauth/logout?"+q.Encode(), "", map[string]string{browserHeader: browser}))
}

// TLogout-2, TLogout-4, TLogout-6: with a hint of the browser's own user, the browser is logged out with all sessions opened in it;
// without one the user is asked.
func TestLogoutOfABrowser(t *testing.T) {
	const bye = "https://harbor.example/bye"
	for name, test := range map[string]struct {
		hint     string // whose hint it is
		query    url.Values
		later    time.Duration
		location string
		lives    bool
	}{
		"no hint":                          {"", nil, 0, "", true},
		"no hint, an image's GET":          {"", url.Values{"client_id": {"harbor"}, "post_logout_redirect_uri": {bye}}, 0, "", true},
		"bad hint":                         {"bad", url.Values{"post_logout_redirect_uri": {bye}}, 0, "", true},
		"hint of another person":           {"bob", url.Values{"post_logout_redirect_uri": {bye}}, 0, "", true},
		"hint":                             {"alice", nil, 0, "", false},
		"hint that has expired":            {"alice", nil, 5 * time.Hour, "", false},
		"hint and target (TLogout-3)":      {"alice", url.Values{"post_logout_redirect_uri": {bye}, "state": {"\x00ü"}}, 0, bye + "?state=%00%C3%BC", false},
		"hint and target of nobody (S40)":  {"alice", url.Values{"post_logout_redirect_uri": {"https://evil.example"}}, 0, "", false},
		"hint and target of another":       {"alice", url.Values{"post_logout_redirect_uri": {"https://app.example/bye?a=b"}}, 0, "", false},
		"hint of a session that is over":   {"alice, over", nil, 0, "", false},
		"state of somebody else's logout":  {"", url.Values{"state": {"x"}}, 0, "", true},
		"unknown parameters, empty client": {"alice", url.Values{"client_id": {""}, "ui_locales": {"de"}}, 0, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newReplicas(t, 2, func(s *settings) { s.life.Inactivity = 24 * time.Hour })
			s := f.servers[0]
			_, hash := stand()
			f.user("bob", hash, "Active")
			b := s.browser(t, "alice")
			harbor, spa := s.redeem(t, s.code(t, b, harborAsks()), nil), s.post(t, spaRedeems(s.code(t, b, spaAsks())), nil)
			hint := map[string]string{"alice": harbor.str("id_token"), "alice, over": harbor.str("id_token"), "bad": harbor.str("access_token"),
				"bob": s.redeem(t, s.code(t, s.browser(t, "bob"), harborAsks()), nil).str("id_token"), "": ""}[test.hint]
			if test.hint == "alice, over" {
				s.form(t, "/oauth/revoke", asHarbor(harbor.str("refresh_token")), nil)
			}
			f.clock.Step(test.later)
			r := s.page(t, b, with(cmpOr(test.query), "id_token_hint", hint))
			if r.header.Get("Location") != test.location || r.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%d to %q: %s", r.code, r.header.Get("Location"), r.text)
			}
			_, _, err := s.sessions.Find(t.Context(), b)
			renewed := f.servers[1].post(t, url.Values{"grant_type": {"refresh_token"}, "client_id": {"spa"}, "refresh_token": {spa.str("refresh_token")}}, nil)
			if (err == nil) != test.lives || (renewed.code == http.StatusOK) != test.lives {
				t.Errorf("the browser: %v, another client: %d %s", err, renewed.code, renewed.text)
			}
		})
	}
}

// cmpOr returns the query, or that of none if it is empty.
func cmpOr(q url.Values) url.Values {
	if q == nil {
		return url.Values{}
	}
	return q
}

// A session with offline_access outlives the browser's (OpenID Connect Core 1.0, 11), but not a logout of its own.
func TestOfflineAccessOutlivesTheBrowser(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	b := s.browser(t, "alice")
	off := s.redeem(t, s.code(t, b, harborAsks("scope", "openid offline_access")), nil)
	on := s.redeem(t, s.code(t, b, harborAsks()), nil)
	s.page(t, b, url.Values{"id_token_hint": {on.str("id_token")}})
	if s.userinfo(t, on.str("access_token")).code != http.StatusUnauthorized || s.userinfo(t, off.str("access_token")).code != http.StatusOK {
		t.Error("the wrong one ended")
	}
	s.page(t, "", url.Values{"id_token_hint": {off.str("id_token")}})
	if s.userinfo(t, off.str("access_token")).code != http.StatusUnauthorized {
		t.Error("it outlives its own logout")
	}
}

// leaver is an identity provider with a logout page.
type leaver struct {
	idp.Provider
	fail error
}

func (u leaver) Logout(_ context.Context, hint, back, state string) (string, error) {
	return "https://idp.example/end?" + url.Values{"id_token_hint": {hint}, "post_logout_redirect_uri": {back}, "state": {state}}.Encode(), u.fail
}

// TLogout-6, U34: the logout is passed on with the provider's own ID token, and returns to where the client wanted.
func TestLogoutGoesUpstreamAndComesBack(t *testing.T) {
	f := newReplicas(t, 1, nil)
	s := f.servers[0]
	sess, _, err := s.sessions.Open(
		t.Context(),
		session.Login{AuthnResult: iam.AuthnResult{User: s.users.ByName("alice"), Provider: "corp", Subject: "1", Hint: "their-id-token"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	l := s.oauth.logout.Request("harbor", protocol.Form{"post_logout_redirect_uri": "https://harbor.example/bye", "state": "a b"})
	to, err := s.oauth.logout.RequestUpstreamURL(request(t, http.MethodGet, s.URL, "", nil), leaver{}, sess, l)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(to)
	if err != nil || u.Query().Get("id_token_hint") != "their-id-token" || u.Query().Get("post_logout_redirect_uri") != issuerURL+"/oauth/logout" {
		t.Fatalf("%s, %v", to, err)
	}
	back := s.page(t, "", url.Values{"state": {u.Query().Get("state")}})
	if back.code != http.StatusFound || back.header.Get("Location") != "https://harbor.example/bye?state=a+b" {
		t.Errorf("%d to %q", back.code, back.header.Get("Location"))
	}
	// A state can't redirect anywhere else, and one made for another use is not accepted (S40).
	for _, state := range []string{u.Query().Get("state") + "x", s.codeOf(t)} {
		if r := s.page(t, "", url.Values{"state": {state}}); r.header.Get("Location") != "" {
			t.Errorf("%q", r.header.Get("Location"))
		}
	}
	if l := s.oauth.logout.Request("harbor", protocol.Form{"post_logout_redirect_uri": "https://evil.example"}); l.To != "" {
		t.Error(l.To)
	}
}

// TLogout-6, U34: with a hint of the client's own login, the logout is passed on to the provider before the browser's session ends,
// which has the provider's ID token; also if the browser has lost our cookie.
func TestLogoutWithAHintGoesUpstreamToo(t *testing.T) {
	for name, cookie := range map[string]bool{"WithTheCookie": true, "WithoutIt": false} {
		t.Run(name, func(t *testing.T) {
			w := newPageTest(t)
			w.knows("alice")
			known := w.gate.proof
			w.gate.proof = func(provider string, id *idp.Identity) (*iam.AuthnResult, error) {
				proof, err := known(provider, id)
				proof.Hint = "their-id-token"
				return proof, err
			}
			p := w.person(t)
			p.open("/oauth/authorize?" + harborAsks().Encode())
			q := p.open("/oauth/callback/github?code=c&state="+p.away(p.button())).sentTo(t, harborURI)
			in := w.redeem(t, q.Get("code"), nil)
			leaver := p
			if !cookie {
				leaver = w.person(t)
			}
			r := leaver.open(
				"/oauth/logout?" + url.Values{"id_token_hint": {in.str("id_token")}, "post_logout_redirect_uri": {"https://harbor.example/bye"}, "state": {"a b"}}.Encode(),
			)
			up, err := url.Parse(r.header.Get("Location"))
			if err != nil || r.code != http.StatusFound || up.Host != "idp.example" || up.Query().Get("hint") != "their-id-token" {
				t.Fatalf("%d %v %s", r.code, r.header, r.text)
			}
			if p.loggedIn() != "" || w.userinfo(t, in.str("access_token")).code != http.StatusUnauthorized {
				t.Error("a session outlives the logout")
			}
			if r := leaver.open("/oauth/logout?" + url.Values{"state": {up.Query().
				Get("state")}}.Encode()); r.header.Get("Location") != "https://harbor.example/bye?state=a+b" {
				t.Errorf("%d to %q", r.code, r.header.Get("Location"))
			}
		})
	}
}
