package identity

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// arrives delivers what a provider answers to a browser.
func (b *browser) arrives(t *testing.T, back *url.URL) *page {
	t.Helper()
	return b.open(t, back.String(), "Sec-Fetch-Site: cross-site")
}

// turnedAway fails the test unless the person is told that the login at a provider is not good, and is nobody.
func turnedAway(t *testing.T, b *browser, p *page) {
	t.Helper()
	if p.to != nil || p.status < 400 || p.status > 499 {
		t.Errorf("%d %q, sent to %v", p.status, p.heading(), p.to)
	}
	b.open(t, "/oauth/account").shows(t, http.StatusOK, "Log in")
}

// changedAddress returns the address with other parameters; "" takes one out.
func changedAddress(address *url.URL, pairs ...string) *url.URL {
	out := *address
	q := out.Query()
	for i := 0; i+1 < len(pairs); i += 2 {
		if q.Set(pairs[i], pairs[i+1]); pairs[i+1] == "" {
			q.Del(pairs[i])
		}
	}
	out.RawQuery = q.Encode()
	return &out
}

func TestProvidersAreNotMixedUp(t *testing.T) {
	rule(t, "T9700-16")
	one, two := newUpstream(t, "one"), newUpstream(t, "two")
	begin := func(t *testing.T, u *upstream) (*browser, *url.URL) {
		t.Helper()
		b := newBrowser(t)
		return b, u.consent(t, u.begin(t, b, b.open(t, "/oauth/login")))
	}
	t.Run("TheAnswerOfOneAtTheAddressOfTheOther", func(t *testing.T) {
		b, back := begin(t, one)
		if !strings.HasSuffix(back.Path, "/oauth/callback/"+one.name) {
			t.Errorf("providers share an address: %s", back)
		}
		storesNothing(t, func() {
			wrong := *back
			wrong.Path = "/oauth/callback/" + two.name
			turnedAway(t, b, b.arrives(t, &wrong))
		})
		if one.shown(back) || two.shown(back) {
			t.Error("the code was redeemed all the same")
		}
	})
	t.Run("WhileBothAreAsked", func(t *testing.T) {
		b, first := begin(t, one)
		second := two.consent(t, two.begin(t, b, b.open(t, "/oauth/login")))
		storesNothing(t, func() {
			mixed := changedAddress(second, "code", first.Query().Get("code"), "iss", one.Base)
			turnedAway(t, b, b.arrives(t, mixed))
		})
		if two.shown(first) {
			t.Error("the code of one was shown to the other")
		}
		b.arrives(t, first).shows(t, http.StatusOK, "Your account") // the other login goes on
	})
	for name, iss := range map[string]string{"AnotherIssuer": two.Base, "NoIssuer": "", "OurOwn": issuer, "ItsIssuerWithASlash": one.Base + "/"} {
		t.Run(name, func(t *testing.T) {
			b, back := begin(t, one)
			storesNothing(t, func() { turnedAway(t, b, b.arrives(t, changedAddress(back, "iss", iss))) })
			if one.shown(back) {
				t.Error("the code was redeemed all the same")
			}
		})
	}
	b, back := begin(t, two)
	b.arrives(t, back).shows(t, http.StatusOK, "Your account")
}

func TestUpstreamLoginsAreBoundToTheirBrowser(t *testing.T) {
	rule(t, "T9700-17")
	u := newUpstream(t, "bound")
	q := harbor.ask()
	b := newBrowser(t)
	asked := u.begin(t, b, b.open(t, q.address()))
	for _, name := range []string{"state", "nonce"} {
		if len(asked.Query().Get(name)) < 22 { // 128 bits in base64
			t.Errorf("%s is %q", name, asked.Query().Get(name))
		}
	}
	if asked.Query().Get("code_challenge_method") != "S256" || len(asked.Query().Get("code_challenge")) != 43 {
		t.Errorf("asked without PKCE: %s", asked)
	}
	back := u.consent(t, asked)
	other := newBrowser(t)
	u.begin(t, other, other.open(t, "/oauth/login")) // has begun a login of its own
	storesNothing(t, func() {
		stranger := newBrowser(t)
		turnedAway(t, stranger, stranger.arrives(t, back)) // the code of an attacker in the browser of his victim
		turnedAway(t, other, other.arrives(t, back))
	})
	for name, wrong := range map[string]*url.URL{
		"NoState": changedAddress(back, "state", ""), "AnotherState": changedAddress(back, "state", random()), "NoCode": changedAddress(back, "code", ""),
		"AnotherCode": changedAddress(back, "code", "x"), "NothingAtAll": changedAddress(back, "state", "", "code", "", "iss", ""),
		"AnError": changedAddress(back, "code", "", "error", "access_denied"),
	} {
		t.Run(name, func(t *testing.T) {
			mine := newBrowser(t)
			address := u.consent(t, u.begin(t, mine, mine.open(t, "/oauth/login")))
			if s := wrong.Query().Get("state"); s == back.Query().Get("state") { // his own state, and what else is wrong
				wrong = changedAddress(wrong, "state", address.Query().Get("state"))
			}
			storesNothing(t, func() { turnedAway(t, mine, mine.arrives(t, wrong)) })
		})
	}
	t.Run("AnotherNonce", func(t *testing.T) {
		for _, nonce := range []any{random(), nil} {
			mine := newBrowser(t)
			address := u.consent(t, u.begin(t, mine, mine.open(t, "/oauth/login")))
			u.forge(func(claims map[string]any) {
				if claims["nonce"] = nonce; nonce == nil {
					delete(claims, "nonce")
				}
			})
			storesNothing(t, func() { turnedAway(t, mine, mine.arrives(t, address)) })
			u.forge(nil)
		}
	})
	t.Run("AndCountOnce", func(t *testing.T) {
		p := b.arrives(t, back)
		alive(t, q.redeem(t, q.landed(t, p)).tokens(t).Access)
		storesNothing(t, func() {
			if again := b.arrives(t, back); again.to != nil || again.status < 400 {
				t.Errorf("%d, sent to %v", again.status, again.to)
			}
		})
	})
}
