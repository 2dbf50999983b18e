package idptest

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
)

func (s Suite) redirect(t *testing.T) {
	w := s.world(t)
	p, ok := w.provider.(idp.Redirect)
	if !ok {
		return
	}
	t.Run("TheRequestHoldsWhatBindsTheAnswer", func(t *testing.T) { s.bound(t, w, p) })
	t.Run("AHintStaysAHint", func(t *testing.T) {
		b := begin()
		b.LoginHint = "x&redirect_uri=https://evil.example&state=1#\r\n"
		q := query(t, w, p, b)
		if got := q["redirect_uri"]; len(got) > 1 || len(got) == 1 && got[0] != callback {
			t.Errorf("redirect_uri is %q", got)
		}
		if len(q["state"]) > 1 {
			t.Errorf("state is %q", q["state"])
		}
	})
	t.Run("AgainIsAskedFor", func(t *testing.T) {
		b := begin()
		plain := query(t, w, p, b)
		b.Again = true
		if again := query(t, w, p, b); again.Encode() == plain.Encode() {
			t.Error("a person who has to prove himself again is not asked to")
		}
	})
	t.Run("ACallbackThatIsWrongMakesNobody", func(t *testing.T) { s.wrongCallbacks(t, w, p) }) // S41
	t.Run("ACodeIsUsedOnce", func(t *testing.T) {
		back := w.arrive(begin())
		if _, err := p.Finish(t.Context(), back); err != nil {
			t.Fatal(err)
		}
		if err := nobody(p.Finish(t.Context(), back)); !errors.Is(err, idp.ErrRefused) {
			t.Errorf("used again: %v", err)
		}
	})
}

func query(t *testing.T, w *world, p idp.Redirect, b idp.Begin) url.Values {
	t.Helper()
	address, err := p.Begin(t.Context(), b)
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host != w.outside.Address || u.Fragment != "" || u.User != nil {
		t.Fatalf("the browser is sent to %q: %v", address, err)
	}
	return u.Query()
}

func (s Suite) bound(t *testing.T, w *world, p idp.Redirect) { // S43, T9700-17
	b := begin()
	q := query(t, w, p, b)
	if !strings.Contains(q.Encode(), b.State) {
		t.Errorf("the state is not sent: %v", q)
	}
	if strings.Contains(q.Encode(), b.Verifier) {
		t.Errorf("the verifier itself is sent: %v", q)
	}
	if !w.NoPKCE {
		sum := sha256.Sum256([]byte(b.Verifier))
		if q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || q.Get("code_challenge_method") != "S256" {
			t.Errorf("no challenge by S256: %v", q)
		}
	}
	if !w.NoNonce && q.Get("nonce") != b.Nonce {
		t.Errorf("the nonce is not sent: %v", q)
	}
	for _, secret := range w.Secrets {
		if strings.Contains(q.Encode(), url.QueryEscape(secret)) {
			t.Error("the browser is given a secret")
		}
	}
}

func (s Suite) wrongCallbacks(t *testing.T, w *world, p idp.Redirect) {
	changes := map[string]func(c *idp.Callback){
		"nothing":   func(c *idp.Callback) { c.Values = url.Values{} },
		"no values": func(c *idp.Callback) { c.Values = nil },
		"an error":  func(c *idp.Callback) { c.Values = url.Values{"error": {"access_denied"}, "state": c.Values["state"]} },
		"another code": func(c *idp.Callback) {
			c.Values = replaced(c.Values, func(s string) []string { return []string{s + "x"} })
		},
		"two codes": func(c *idp.Callback) {
			c.Values = replaced(c.Values, func(s string) []string { return []string{s, s} })
		},
		"a long code": func(c *idp.Callback) {
			c.Values = replaced(c.Values, func(string) []string { return []string{strings.Repeat("x", 1<<20)} })
		},
		"an empty code": func(c *idp.Callback) { c.Values = replaced(c.Values, func(string) []string { return []string{""} }) },
		"controls": func(c *idp.Callback) {
			c.Values = replaced(c.Values, func(s string) []string { return []string{s + "\r\n\x00"} })
		},
		"another place": func(c *idp.Callback) { c.Callback = "https://ks.example/oauth/callback/other" },
	}
	if !w.NoPKCE {
		changes["another verifier"] = func(c *idp.Callback) { c.Verifier = random() }
		changes["no verifier"] = func(c *idp.Callback) { c.Verifier = "" }
	}
	if !w.NoNonce {
		changes["another nonce"] = func(c *idp.Callback) { c.Nonce = random() }
		changes["no nonce"] = func(c *idp.Callback) { c.Nonce = "" }
	}
	for name, change := range changes {
		back := w.arrive(begin())
		change(&back)
		if err := nobody(p.Finish(t.Context(), back)); !errors.Is(err, idp.ErrRefused) || errors.Is(err, idp.ErrUnavailable) {
			t.Errorf("%s: want ErrRefused, got: %v", name, err)
		}
	}
}

// replaced returns the values with another code or ticket.
func replaced(values url.Values, change func(string) []string) url.Values {
	out := url.Values{}
	for k, v := range values {
		if k == "code" || k == "ticket" {
			v = change(v[0])
		}
		out[k] = slices.Clone(v)
	}
	return out
}

func (s Suite) password(t *testing.T) {
	w := s.world(t)
	p, ok := w.provider.(idp.Password)
	if !ok {
		return
	}
	t.Run("AnEmptyPasswordIsNeverSent", func(t *testing.T) { // S46
		before, accepted := w.line.Sent(), w.line.Accepted()
		if err := nobody(p.Login(t.Context(), w.Username, "")); !errors.Is(err, idp.ErrCredentials) {
			t.Errorf("want ErrCredentials, got: %v", err)
		}
		if w.line.Sent() != before || w.line.Accepted() != accepted {
			t.Error("the server was asked")
		}
	})
	t.Run("AWrongNameOrPasswordIsOneError", func(t *testing.T) { // S50
		var texts []string
		for _, try := range [][2]string{{w.Username, w.Password + "x"}, {w.Username, strings.ToUpper(w.Password) + "1"},
			{"nobody-" + random(), w.Password}, {"", w.Password},
			{w.Username + "\x00", w.Password}, {"*", w.Password}, {w.Username + ")(uid=*", w.Password}, {strings.Repeat("x", 1<<16), w.Password},
			{w.Username, strings.Repeat("x", 1<<16)}} {
			err := nobody(p.Login(t.Context(), try[0], try[1]))
			if !errors.Is(err, idp.ErrCredentials) || errors.Is(err, idp.ErrUnavailable) {
				t.Errorf("%.40q: want ErrCredentials, got: %v", try[0], err)
				continue
			}
			texts = append(texts, err.Error())
		}
		if len(slices.Compact(texts)) > 1 {
			t.Errorf("the errors tell which is wrong: %q", texts)
		}
	})
	t.Run("AWrongPasswordDoesNoHarmToTheNextLogin", func(t *testing.T) {
		_, _ = p.Login(t.Context(), w.Username, w.Password+"x")
		w.mustLogin()
	})
}
