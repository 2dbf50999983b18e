package identity

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// leaving is a person who is logged in, and what a client of his got.
type leaving struct {
	*browser
	tokens
	name string
}

func newLeaving(t *testing.T) *leaving {
	t.Helper()
	l := &leaving{name: newUser(t, "leaving")}
	l.browser = logIn(t, l.name)
	l.tokens = harbor.ask().tokens(t, l.browser)
	return l
}

// logout goes to the end_session_endpoint with pairs of names and values.
func (l *leaving) logout(t *testing.T, pairs ...string) *page {
	t.Helper()
	return l.open(t, "/oauth/logout?"+values(pairs...).Encode())
}

// in tells whether he is logged in still, and with him the client.
func (l *leaving) in(t *testing.T) bool {
	t.Helper()
	q := harbor.ask("prompt", "none")
	here := l.open(t, q.address()).leads(t, q.redirect()).Has("code")
	token := get(t, me, l.Access).status == http.StatusOK
	if here != token {
		t.Errorf("logged in in the browser: %v, by the client's token: %v", here, token)
	}
	return here
}

// stays fails the test unless the person is logged in still, and is shown a page.
func (l *leaving) stays(t *testing.T, p *page) {
	t.Helper()
	if p.to != nil || !l.in(t) {
		t.Errorf("sent to %v, logged in: %v", p.to, l.in(t))
	}
}

// gone fails the test unless he is logged out everywhere.
func (l *leaving) gone(t *testing.T) {
	t.Helper()
	if l.in(t) {
		t.Error("he is logged in still")
	}
	harbor.refresh(t, l.Refresh).fails(t, http.StatusBadRequest, "invalid_grant")
	over(t, replica(t), l.Access)
}

// TestOIDCCRpInitiatedLogoutTestPlan has the modules of that plan, by their names.
func TestOIDCCRpInitiatedLogoutTestPlan(t *testing.T) {
	rule(t, "TLogout-1", "TLogout-2", "TLogout-3", "TLogout-4", "TLogout-5", "TLogout-6", "S40")
	bye := harbor.LogoutURIs[0]
	// asks: the person is asked, and is logged in until he says yes.
	asks := func(pairs func(l *leaving) []string) func(t *testing.T) {
		return func(t *testing.T) {
			l := newLeaving(t)
			p := l.logout(t, pairs(l)...).shows(t, http.StatusOK, "Log out")
			l.stays(t, p)
			l.submit(t, p, "answer", "no")
			if !l.in(t) {
				t.Error("he said no, and is logged out")
			}
			p = l.submit(t, l.logout(t, pairs(l)...), "answer", "yes")
			if p.to != nil && p.to.Host != "harbor.example" {
				t.Errorf("sent to %s", p.to)
			}
			l.gone(t)
		}
	}
	// nowhere: he is logged out, and sent nowhere.
	nowhere := func(pairs func(l *leaving) []string) func(t *testing.T) {
		return func(t *testing.T) {
			l := newLeaving(t)
			p := l.logout(t, pairs(l)...)
			if p.to != nil {
				t.Errorf("sent to %s", p.to)
			}
			l.gone(t)
		}
	}
	modules(t, []module{
		{"RpInitiatedLogout", func(t *testing.T) {
			l := newLeaving(t)
			state := random() + "&= ü"
			got := l.logout(t, "id_token_hint", l.ID, "post_logout_redirect_uri", bye, "state", state).leads(t, bye)
			if got.Get("state") != state || len(got) != 1 {
				t.Errorf("%v", got)
			}
			l.gone(t)
		}},
		{"RpInitiatedLogoutByPost", func(t *testing.T) {
			l := newLeaving(t)
			p := l.post(t, "/oauth/logout", values("id_token_hint", l.ID, "post_logout_redirect_uri", bye, "client_id", harbor.ID, "state", "s"))
			if p.leads(t, bye).Get("state") != "s" || p.status != http.StatusSeeOther {
				t.Errorf("%d to %s", p.status, p.to)
			}
			l.gone(t)
		}},
		{"RegisteredQueryIsKept", func(t *testing.T) {
			l := newLeaving(t)
			got := l.logout(t, "id_token_hint", l.ID, "post_logout_redirect_uri", harbor.LogoutURIs[1], "state", "s").leads(t, bye)
			if got.Get("a") != "b" || got.Get("state") != "s" {
				t.Errorf("%v", got)
			}
		}},
		{"BadLogoutRedirectUri", nowhere(func(l *leaving) []string {
			return []string{"id_token_hint", l.ID, "post_logout_redirect_uri", "https://evil.example/bye"}
		})},
		{"LogoutRedirectUriOfAnotherClient", nowhere(func(l *leaving) []string {
			return []string{"id_token_hint", l.ID, "post_logout_redirect_uri", portal.LogoutURIs[0]}
		})},
		{"QueryAddedToLogoutRedirectUri", nowhere(func(l *leaving) []string {
			return []string{"id_token_hint", l.ID, "post_logout_redirect_uri", bye + "?foo=bar"}
		})},
		{"NoState", func(t *testing.T) {
			l := newLeaving(t)
			if got := l.logout(t, "id_token_hint", l.ID, "post_logout_redirect_uri", bye).leads(t, bye); len(got) != 0 {
				t.Errorf("%v", got)
			}
		}},
		{"NoPostLogoutRedirectUri", nowhere(func(l *leaving) []string { return []string{"id_token_hint", l.ID} })},
		{"NoParams", asks(func(*leaving) []string { return nil })},
		{"OnlyState", asks(func(*leaving) []string { return []string{"state", "s"} })},
		{"NoIdTokenHint", asks(func(*leaving) []string { return []string{"post_logout_redirect_uri", bye, "state", "s"} })},
		{"NoIdTokenHintAndAClient", asks(func(*leaving) []string { return []string{"post_logout_redirect_uri", bye, "client_id", harbor.ID} })},
		{"ModifiedIdTokenHint", asks(func(l *leaving) []string {
			parts := strings.Split(l.ID, ".")
			return []string{"id_token_hint", parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2])), "post_logout_redirect_uri", bye}
		})},
		{"BadIdTokenHint", asks(func(*leaving) []string {
			return []string{"id_token_hint", "not a token", "post_logout_redirect_uri", bye}
		})},
		{"AnAccessTokenAsHint", asks(func(l *leaving) []string { return []string{"id_token_hint", l.Access, "post_logout_redirect_uri", bye} })},
	})
}

// TLogout-2: a hint may be too old for anything else; it has to be of the client that names itself, and of the person who sits here.
func TestLogoutHints(t *testing.T) {
	rule(t, "TLogout-2", "TLogout-4")
	bye := harbor.LogoutURIs[0]
	t.Run("ExpiredOnesCount", func(t *testing.T) {
		l := newLeaving(t)
		header, body := claims(t, l.ID)
		old := openVault(t).signed(t, header, claimed(claimed(body, "exp", time.Now().Add(-24*time.Hour).Unix()), "iat", time.Now().Add(-48*time.Hour).Unix()))
		l.logout(t, "id_token_hint", old, "post_logout_redirect_uri", bye).leads(t, bye)
		l.gone(t)
	})
	t.Run("OfAnotherClientThanItSays", func(t *testing.T) {
		l := newLeaving(t)
		p := l.logout(t, "id_token_hint", l.ID, "client_id", portal.ID, "post_logout_redirect_uri", portal.LogoutURIs[0])
		if p.status != http.StatusBadRequest {
			t.Errorf("%d %q", p.status, p.heading())
		}
		l.stays(t, p)
	})
	t.Run("OfSomebodyElse", func(t *testing.T) {
		l, other := newLeaving(t), newLeaving(t)
		l.stays(t, l.logout(t, "id_token_hint", other.ID, "post_logout_redirect_uri", bye).shows(t, http.StatusOK, "Log out"))
		if !other.in(t) {
			t.Error("the other one is logged out")
		}
	})
	t.Run("OfASessionThatIsOver", func(t *testing.T) {
		l := newLeaving(t)
		harbor.revoke(t, l.Refresh).must(t, http.StatusOK)
		l.logout(t, "id_token_hint", l.ID, "post_logout_redirect_uri", bye, "state", "s").leads(t, bye)
		q := harbor.ask("prompt", "none")
		q.refused(t, l.open(t, q.address()), "login_required")
	})
	t.Run("AnImageLogsNobodyOut", func(t *testing.T) {
		l := newLeaving(t)
		l.open(t, "/oauth/logout", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image", "Accept: image/avif,*/*")
		if !l.in(t) {
			t.Error("an image on a page has logged him out")
		}
		f := l.logout(t).form(t, values("answer", "yes"))
		f.fields.Set("answer", "yes")
		l.post(t, "/oauth/logout/confirm", f.fields, "Origin: https://evil.example", "Sec-Fetch-Site: cross-site").is(t, http.StatusForbidden)
		forged := maps.Clone(f.fields)
		forged.Del("form")
		l.post(t, "/oauth/logout/confirm", forged, "Sec-Fetch-Site: same-origin").is(t, http.StatusForbidden)
		if !l.in(t) {
			t.Error("a form of another site has logged him out")
		}
	})
}

// S40: nobody is ever sent to an address that is not registered, however it is written.
func TestLogoutLeadsNowhereElse(t *testing.T) {
	rule(t, "S40", "TLogout-3")
	l := newLeaving(t)
	for _, to := range []string{"https://evil.example", "//evil.example", `/\evil.example`, "https:evil.example", "%2f%2fevil.example",
		"https://harbor.example@evil.example/bye",
		"https://harbor.example/bye/", "https://harbor.example/BYE", "https://harbor.example/bye#x", "https://harbor.example/bye\r\nLocation: https://evil.example",
		"https://harbor.example/bye%0d%0aLocation:%20https://evil.example", "javascript:alert(1)", "data:text/html,x", "https://harbor.example.evil.example/bye",
		`https://harbor.example\.evil.example/bye`, " https://harbor.example/bye", "http://harbor.example/bye", "https://harbor.example:444/bye"} {
		for _, hint := range []string{l.ID, "", "x"} {
			p := newBrowser(t).open(t, "/oauth/logout?"+values("id_token_hint", hint, "post_logout_redirect_uri", to, "state", "s").Encode())
			if p.to != nil || p.header.Get("Location") != "" || strings.Contains(p.body, "evil") {
				t.Errorf("%q leads to %q: %s", to, p.header.Get("Location"), clip(p.body))
			}
		}
	}
	got := get(t, "/.well-known/openid-configuration", "").object()
	if got["end_session_endpoint"] != issuer+"/oauth/logout" {
		t.Errorf("the metadata name %v", got["end_session_endpoint"])
	}
}

// TLogout-6, U34: the identity provider logs him out as well, with its own ID token as hint, and sends him back to where he was to go.
func TestLogoutGoesUpstream(t *testing.T) {
	rule(t, "TLogout-6")
	u := newUpstream(t, "upout")
	b := newBrowser(t)
	q := harbor.ask()
	back := u.consent(t, u.begin(t, b, b.open(t, q.address()).shows(t, http.StatusOK, "Log in")))
	got := q.redeem(t, q.landed(t, b.open(t, back.String(), "Sec-Fetch-Site: cross-site"))).tokens(t)
	alive(t, got.Access)
	p := b.open(t, "/oauth/logout?"+values("id_token_hint", got.ID, "post_logout_redirect_uri", harbor.LogoutURIs[0], "state", "s").Encode())
	asked := p.leads(t, u.Base+"/logout")
	if _, hint := claims(t, asked.Get("id_token_hint")); hint["iss"] != u.Base || hint["sub"] != u.name+"-sub" {
		t.Errorf("the hint is %v", hint)
	}
	if asked.Get("post_logout_redirect_uri") != issuer+"/oauth/logout" || asked.Get("state") == "" {
		t.Errorf("%v", asked)
	}
	dead(t, got.Access)
	over(t, replica(t), got.Access)
	harbor.refresh(t, got.Refresh).fails(t, http.StatusBadRequest, "invalid_grant")
	p = b.open(t, "/oauth/logout?"+url.Values{"state": {asked.Get("state")}}.Encode(), "Sec-Fetch-Site: cross-site")
	if p.leads(t, harbor.LogoutURIs[0]).Get("state") != "s" {
		t.Errorf("sent to %s", p.to)
	}
	if p := b.open(t, "/oauth/logout?state="+strings.Repeat("A", 200)); p.to != nil {
		t.Errorf("a state of somebody else leads to %s", p.to)
	}
}
