package identity

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

// confirm sends the person of a browser to the provider to prove himself again, for a change on his own page, and returns where that leads him.
func (u *upstream) confirm(t *testing.T, b *browser) (asked *url.URL, p *page) {
	t.Helper()
	account := b.open(t, "/oauth/account").shows(t, http.StatusOK, "Your account")
	again := b.submit(t, account, "description", "rules", "days", "30").shows(t, http.StatusOK, "Confirm that it is you")
	asked = u.begin(t, b, again)
	return asked, b.open(t, u.consent(t, asked).String(), "Sec-Fetch-Site: cross-site")
}

// authTime has the provider say that its person proved himself that long ago; nil for nothing.
func (u *upstream) authTime(ago func() any) {
	u.forge(func(claims map[string]any) {
		if v := ago(); v != nil {
			claims["auth_time"] = v
		}
	})
}

func at(d time.Duration) func() any { return func() any { return time.Now().Add(d).Unix() } }

// S73: what opens an account, or changes how its person logs in, needs a login of which the identity provider says that it was a fresh one.
func TestASensitiveStepNeedsAFreshLoginThatTheProviderVouchesFor(t *testing.T) {
	rule(t, "S73", "TCore-4")
	u := newUpstream(t, "fresh")
	b, q, back := u.journey(t)
	access := q.redeem(t, q.landed(t, b.open(t, back.String(), "Sec-Fetch-Site: cross-site"))).tokens(t).Access
	_, payload := claims(t, access)
	sub := payload["sub"]

	refused := func(ago func() any, status int) func(t *testing.T) {
		return func(t *testing.T) {
			u.authTime(ago)
			asked, p := u.confirm(t, b)
			if v := asked.Query(); v.Get("max_age") != "0" || v.Get("prompt") != "login" {
				t.Errorf("the provider is asked by %v", v)
			}
			if p.to != nil || p.status != status {
				t.Errorf("%d, sent to %v: %s", p.status, p.to, clip(p.body))
			}
			b.submit(t, b.open(t, "/oauth/account"), "description", "rules", "days", "30").shows(t, http.StatusOK, "Confirm that it is you")
		}
	}
	modules(t, []module{
		{"TheProviderSaysNothing", refused(func() any { return nil }, http.StatusForbidden)},
		{"AnHourAgo", refused(at(-time.Hour), http.StatusForbidden)},
		{"ShortlyBefore", refused(at(-45*time.Second), http.StatusForbidden)},
		{"AtTheBeginningOfTime", refused(func() any { return 0 }, http.StatusBadRequest)},
		{"InTheFuture", refused(at(time.Hour), http.StatusBadRequest)},
		{"NoNumber", refused(func() any { return "now" }, http.StatusBadRequest)},
		{"TheAPIAsksForItToo", func(t *testing.T) {
			u.authTime(func() any { return nil })
			token := harbor.ask().tokens(t, b).Access
			a := u.makeKey(t, token)
			if a.status != http.StatusForbidden || !strings.Contains(a.body, "log in again") {
				t.Errorf("%d %s", a.status, clip(a.body))
			}
		}},
		{"TheBrowserChangesTheRequest", func(t *testing.T) { // the provider was asked for nothing, and says so by its silence
			u.authTime(at(-time.Hour))
			again := b.submit(t, b.open(t, "/oauth/account"), "description", "rules", "days", "30")
			asked := changedAddress(u.begin(t, b, again), "max_age", "", "prompt", "")
			p := b.open(t, u.consent(t, asked).String(), "Sec-Fetch-Site: cross-site")
			if p.status != http.StatusForbidden {
				t.Errorf("%d, sent to %v", p.status, p.to)
			}
		}},
		{"AClientIsNotToldOfAFreshLogin", func(t *testing.T) {
			u.authTime(at(-time.Hour))
			q := harbor.ask("max_age", "60")
			login := b.open(t, q.address()).shows(t, http.StatusOK, "Confirm that it is you")
			p := b.open(t, u.consent(t, u.begin(t, b, login)).String(), "Sec-Fetch-Site: cross-site")
			if p.to != nil || p.status != http.StatusForbidden {
				t.Errorf("%d, sent to %v", p.status, p.to)
			}
			q = harbor.ask("prompt", "none", "max_age", "60")
			q.refused(t, b.open(t, q.address()), "login_required")
		}},
		{"AFreshLogin", func(t *testing.T) {
			u.authTime(at(0))
			_, p := u.confirm(t, b)
			p = b.submit(t, p.shows(t, http.StatusOK, "Your account"), "description", "rules", "days", "30")
			if p.status != http.StatusOK || !strings.Contains(p.body, "kapis_") && !strings.Contains(p.heading(), "key") {
				t.Errorf("%d %q: %s", p.status, p.heading(), clip(p.body))
			}
			q := harbor.ask("max_age", "60")
			got := q.tokens(t, b)
			_, id := claims(t, got.ID)
			if when, _ := id["auth_time"].(float64); time.Since(time.Unix(int64(when), 0)) > time.Minute || id["sub"] != sub {
				t.Errorf("the client is told %v", id)
			}
			if a := u.makeKey(t, got.Access); a.status >= 300 {
				t.Errorf("%d %s", a.status, clip(a.body))
			}
		}},
		{"AClientIsToldWhenItWas", func(t *testing.T) {
			u.authTime(at(-time.Hour))
			other, q, back := u.journey(t)
			_, id := claims(t, q.redeem(t, q.landed(t, other.open(t, back.String(), "Sec-Fetch-Site: cross-site"))).tokens(t).ID)
			if when, _ := id["auth_time"].(float64); time.Since(time.Unix(int64(when), 0)) < 59*time.Minute {
				t.Errorf("the client is told %v", id)
			}
			u.authTime(func() any { return nil })
			other, q, back = u.journey(t)
			_, id = claims(t, q.redeem(t, q.landed(t, other.open(t, back.String(), "Sec-Fetch-Site: cross-site"))).tokens(t).ID)
			if id["auth_time"] != nil {
				t.Errorf("the client is told %v, which nobody knows", id)
			}
		}},
	})
}

// makeKey asks for an API key of the provider's person, without a password.
func (u *upstream) makeKey(t *testing.T, access string) answer {
	t.Helper()
	body := fmt.Sprintf(`{"description":"rules","expiresAt":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	return call(t, http.MethodPost, issuer+usersRoutes+"/"+u.name+"-jane/apikeys", body, "Content-Type: application/json", "Authorization: Bearer "+access)
}

const usersRoutes = "/kapis/iam.kubesphere.io/v1beta1/users"

// S73: of a provider that can't vouch for a fresh login nothing sensitive is taken, and the person is told so.
func TestAProviderThatCanNotVouchForAFreshLoginIsNotAsked(t *testing.T) {
	rule(t, "S73")
	s := idptest.NewServer()
	srv := httptest.NewServer(s.Mux)
	t.Cleanup(srv.Close)
	me := map[string]any{"id": 4711, "name": unique("plain")}
	s.Mux.HandleFunc("GET /me", s.Protected(func(w http.ResponseWriter, _ *http.Request) { idptest.WriteJSON(w, http.StatusOK, me) }))
	name := provide(t, "plain", "OAuth2IdentityProvider", fmt.Sprintf(
		"  clientID: %s\n  clientSecret: %q\n  subjectKey: id\n  usernameKey: name\n  endpoint: {authURL: %s/authorize, tokenURL: %s/token, userInfoURL: %s/me}\n",
		idptest.ClientID, idptest.ClientSecret, srv.URL, srv.URL, srv.URL))
	u := &upstream{OP: &idptest.OP{Server: s, Base: srv.URL}, name: name, codes: map[string]bool{}}
	b, q, back := u.journey(t)
	q.landed(t, b.open(t, back.String(), "Sec-Fetch-Site: cross-site"))
	p := b.submit(t, b.open(t, "/oauth/account").shows(t, http.StatusOK, "Your account"), "description", "rules", "days", "30")
	p.shows(t, http.StatusOK, "Confirm that it is you")
	if !strings.Contains(p.alert(), name+" does not confirm") || strings.Contains(p.body, "login/"+name+"?") {
		t.Errorf("the page says %q", p.alert())
	}
	sealed := p.form(t, url.Values{"username": {}}).fields.Get("form")
	b.open(t, "/oauth/login/"+name+"?form="+url.QueryEscape(sealed)).shows(t, http.StatusForbidden, "")
	asked := harbor.ask("prompt", "none", "max_age", "60")
	asked.refused(t, b.open(t, asked.address()), "login_required")
}
