package oauth

import (
	"net/http"
	"net/url"
	"testing"
	"time"
)

// TLogout-6, S36, S37: logout on one replica, refused on the other, with the refresh token.
func TestLogoutEndsTheWholeSessionEverywhere(t *testing.T) {
	f := newFleet(t, 2, nil)
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

// TLogout-1 to TLogout-5, S40: who proves nothing ends nothing, and nobody is sent to where no client
// has registered.
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
		"nothing":                   {"", "", 0, nil, 200, "", true},
		"an image's GET":            {"", "", 0, url.Values{"post_logout_redirect_uri": {registered}}, 200, "", true},
		"bad bearer":                {"bad", "", 0, nil, 200, "", true},
		"bad hint":                  {"", "bad", 0, url.Values{"post_logout_redirect_uri": {registered}}, 200, "", true},
		"bearer":                    {"good", "", 0, nil, 200, "", false},
		"hint":                      {"", "good", 0, nil, 200, "", false},
		"expired hint":              {"", "good", 24 * time.Hour, nil, 200, "", false},
		"bearer and target":         {"good", "", 0, url.Values{"post_logout_redirect_uri": {registered}}, 302, registered, false},
		"hint, target and state":    {"", "good", 0, url.Values{"post_logout_redirect_uri": {registered}, "state": {"ü &="}}, 302, registered + "&state=%C3%BC+%26%3D", false},
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
			f := newFleet(t, 1, nil)
			s := f.servers[0]
			r := s.post(t, url.Values{"grant_type": {"password"}, "username": {"alice"}, "password": {password},
				"client_id": {"od:d +c"}, "client_secret": {"s:e %c+r"}, "scope": {"openid"}}, nil)
			f.clock.add(test.later)
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
	f := newFleet(t, 1, nil)
	r := f.servers[0].post(t, url.Values{"grant_type": {"password"}, "username": {"alice"}, "password": {password},
		"client_id": {"od:d +c"}, "client_secret": {"s:e %c+r"}, "scope": {"openid"}}, nil)
	form := url.Values{"id_token_hint": {r.str("id_token")}, "post_logout_redirect_uri": {"https://app.example/bye?a=b"}}
	got := do(t, request(t, http.MethodPost, f.servers[0].URL+"/oauth/logout", form.Encode(), nil))
	if got.code != http.StatusSeeOther || got.header.Get("Location") != "https://app.example/bye?a=b" {
		t.Errorf("%d %v", got.code, got.header)
	}
}

func TestLogoutThatCanNotBeDoneSaysSo(t *testing.T) {
	f := newFleet(t, 1, nil)
	access, _ := f.servers[0].login(t)
	header := map[string]string{"Authorization": "Bearer " + access}
	f.setDown(true)
	wants{503, "temporarily_unavailable"}.check(t, do(t, request(t, http.MethodGet, f.servers[0].URL+"/oauth/logout", "", header)))
	f.setDown(false)
	if r := do(t, request(t, http.MethodGet, f.servers[0].URL+"/oauth/logout", "", header)); r.code != http.StatusOK || len(f.names()) != 0 {
		t.Errorf("the second attempt: %d", r.code)
	}
}
