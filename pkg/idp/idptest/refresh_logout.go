package idptest

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
)

func (s Suite) refresh(t *testing.T) {
	w := s.world(t)
	p, ok := w.provider.(idp.Refresher)
	if !ok {
		return
	}
	who := w.mustLogin()
	t.Run("GivesThePersonAsHeIsNow", func(t *testing.T) { // U33
		if w.SetGroups != nil {
			w.SetGroups([]string{"newcomers"})
		}
		now, err := p.Refresh(t.Context(), who.Subject, who.Refresh)
		if err != nil {
			t.Fatal(err)
		}
		if now.Subject != who.Subject {
			t.Errorf("%q became %q", who.Subject, now.Subject)
		}
		if w.SetGroups != nil && !slices.ContainsFunc(now.Groups, func(g string) bool { return strings.HasSuffix(g, "newcomers") }) {
			t.Errorf("the groups are those of the login: %q", now.Groups)
		}
		if who.Refresh != "" && now.Refresh == "" {
			t.Error("the next refresh has nothing to ask with")
		}
		who = now
	})
	t.Run("AsksAgainAfterAFaultWithTheTokenThatCameBeforeIt", func(t *testing.T) {
		if w.Handler == nil {
			return
		}
		who := w.mustLogin()
		w.answer(func(rw http.ResponseWriter, r *http.Request) { // the token endpoint answers, and nothing else does
			if r.Method == http.MethodPost {
				w.Handler.ServeHTTP(rw, r)
				return
			}
			rw.WriteHeader(http.StatusServiceUnavailable)
		})
		err := nobody(p.Refresh(t.Context(), who.Subject, who.Refresh))
		w.heal()
		next := who.Refresh
		if renewed := (*idp.RenewedError)(nil); errors.As(err, &renewed) {
			next = renewed.Next.Reveal()
			if shown := fmt.Sprintf("%v %+v %#v %s", err, renewed, renewed, renewed.Next); strings.Contains(shown, strings.TrimPrefix(next, "r:")) {
				t.Errorf("the error shows the token: %s", shown)
			}
		}
		if err == nil { // nothing else was asked
			return
		}
		unavailable(t, err)
		if now, err := p.Refresh(t.Context(), who.Subject, next); err != nil || now.Subject != who.Subject {
			t.Errorf("asked again after the fault: %v", err)
		}
	})
	t.Run("GivesNobodyElse", func(t *testing.T) {
		if now, err := p.Refresh(t.Context(), who.Subject+"-other", who.Refresh); err == nil {
			t.Errorf("asked about another one, it gives %q", now.Subject)
		} else if errors.Is(err, idp.ErrUnavailable) {
			t.Errorf("a wrong person is no outage: %v", err)
		}
	})
	t.Run("SaysThatSomebodyIsGone", func(t *testing.T) { // S12
		if w.Remove == nil {
			return
		}
		who := w.mustLogin()
		w.Remove()
		if err := nobody(p.Refresh(t.Context(), who.Subject, who.Refresh)); !errors.Is(err, idp.ErrGone) || errors.Is(err, idp.ErrUnavailable) {
			t.Errorf("want ErrGone, got: %v", err)
		}
	})
}

func (s Suite) logout(t *testing.T) { // U34, T9700-12
	w := s.world(t)
	p, ok := w.provider.(idp.Logout)
	if !ok {
		return
	}
	hint := ""
	if w.logsIn() {
		hint = w.mustLogin().Hint
	}
	const back, state = "https://ks.example/oauth/logout?x=1", "state&x=y"
	address, err := p.Logout(t.Context(), hint, back, state)
	if err != nil || address == "" {
		t.Fatalf("log out: %q, %v", address, err)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host != w.outside.Address {
		t.Fatalf("the browser is sent to %q", address)
	}
	if q := u.Query(); len(q["x"]) > 0 {
		t.Errorf("a parameter got out of its place: %v", q)
	}
	for _, secret := range w.Secrets {
		if strings.Contains(address, secret) && !strings.Contains(hint, secret) {
			t.Errorf("the browser is given a secret: %s", address)
		}
	}
	w.line.Down()
	if _, err := p.Logout(t.Context(), hint, back, state); err != nil {
		t.Errorf("what is known already is not known while the server is down: %v", err)
	}
}
