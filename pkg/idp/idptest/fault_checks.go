package idptest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"kapis.dev/ks-apiserver/pkg/idp"
)

func (s Suite) faults(t *testing.T) {
	if !s.world(t).server() {
		return
	}
	t.Run("AServerThatIsDownAtStartAffectsNothingElse", s.downAtStart) // U32
	t.Run("AnOutageIsNoWrongPassword", s.outages)                      // U30
	t.Run("AServerThatHangsIsNotWaitedForLong", s.hangs)
	t.Run("CheckFindsWrongSettings", s.wrongSettings)
	t.Run("ACallerWhoGoesAwayIsNotWaitedFor", s.cancelled)
	t.Run("ManyAtOnce", s.manyAtOnce) // S61
	t.Run("NothingIsLeftBehind", s.leaks)
	if s.world(t).Handler != nil {
		t.Run("WrongAnswersMakeNobody", s.wrongAnswers)
		t.Run("NoRedirectIsFollowed", s.redirects) // S17, S20
		t.Run("AnEndlessAnswerIsCutOff", s.endless)
	}
}

func (s Suite) downAtStart(t *testing.T) {
	w := s.world(t)
	w.line.Down()
	w.provider = w.open(w.Settings)
	unavailable(t, within(t, func() error { return w.provider.Check(t.Context()) }))
	if p, ok := w.provider.(idp.Password); ok {
		unavailable(t, within(t, func() error { return nobody(p.Login(t.Context(), w.Username, w.Password)) }))
	}
	if p, ok := w.provider.(idp.Redirect); ok {
		if _, err := p.Begin(t.Context(), begin()); err != nil { // its addresses may be known or not
			unavailable(t, err)
		}
	}
	w.line.Up()
	if err := w.provider.Check(t.Context()); err != nil {
		t.Errorf("the server is back: %v", err)
	}
	if w.logsIn() {
		w.mustLogin()
	}
}

func (s Suite) outages(t *testing.T) {
	w := s.world(t)
	breaks := map[string]func(){"down": w.line.Down}
	if w.Handler != nil {
		for _, status := range []int{429, 500, 502, 503, 504} {
			breaks[fmt.Sprint(status)] = func() { w.answer(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status) }) }
		}
	}
	for name, broken := range breaks {
		t.Run(name, func(t *testing.T) {
			w.interrupt(t, w.provider, broken)
			if err := w.provider.Check(t.Context()); err != nil {
				t.Errorf("the server is back: %v", err)
			}
			if w.logsIn() {
				w.mustLogin()
			}
		})
	}
}

// interrupt breaks the server before each call of p.
func (w *world) interrupt(t *testing.T, p idp.Provider, broken func()) {
	t.Helper()
	for _, q := range w.asksOf(p) {
		call := q.prepare()
		broken()
		unavailable(t, within(t, func() error { return call(t.Context()) }))
		w.heal()
	}
}

// hangs makes the server not answer, or stop within an answer.
func (s Suite) hangs(t *testing.T) {
	w := s.world(t)
	p := w.impatient()
	for name, broken := range map[string]func(){"silent": w.line.Silence, "stalled": func() { w.line.Stall(700) }} {
		t.Run(name, func(t *testing.T) {
			w.interrupt(t, p, broken)
			w.answers(p)
		})
	}
}

func (s Suite) wrongSettings(t *testing.T) {
	w := s.world(t)
	if err := w.provider.Check(t.Context()); err != nil {
		t.Fatalf("right settings: %v", err)
	}
	for name, change := range w.Wrong {
		settings := clone(t, w.Settings)
		change(settings)
		err := w.open(settings).Check(t.Context())
		if err == nil || errors.Is(err, idp.ErrUnavailable) {
			t.Errorf("%s: want an error that is no outage, got: %v", name, err)
		}
	}
}

func (s Suite) cancelled(t *testing.T) {
	w := s.world(t)
	for _, q := range w.asks() {
		call := q.prepare()
		w.line.Silence()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			select {
			case <-w.line.arrived:
			case <-t.Context().Done():
			}
			cancel()
		}()
		unavailable(t, within(t, func() error { return call(ctx) }))
		cancel()
		w.heal()
		gone, leave := context.WithCancel(t.Context())
		leave()
		if err := within(t, func() error { return q.prepare()(gone) }); err == nil {
			t.Errorf("%s asks for a caller who is gone already", q.name)
		}
	}
}

func (s Suite) manyAtOnce(t *testing.T) {
	w := s.world(t)
	if !w.logsIn() {
		return
	}
	const people = 16
	var group sync.WaitGroup
	calls := make([]func() (*idp.Identity, error), people)
	for i := range calls {
		calls[i] = func() (*idp.Identity, error) {
			return w.provider.(idp.Password).Login(t.Context(), w.Username, w.Password)
		}
		if p, ok := w.provider.(idp.Redirect); ok {
			back := w.arrive(begin())
			calls[i] = func() (*idp.Identity, error) { return p.Finish(t.Context(), back) }
		}
	}
	for _, call := range calls {
		group.Go(func() {
			if who, err := call(); err != nil || who.Subject != w.Person.Subject {
				t.Errorf("one of many: %v, %v", who, err)
			}
		})
		group.Go(func() {
			if err := w.provider.Check(t.Context()); err != nil {
				t.Errorf("check beside logins: %v", err)
			}
		})
	}
	group.Wait()
}

func (s Suite) leaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("calls", func(t *testing.T) {
		w := s.world(t)
		p := w.impatient()
		for range 3 {
			for _, q := range w.asks() {
				if err := q.prepare()(t.Context()); err != nil {
					t.Errorf("%s: %v", q.name, err)
				}
			}
			w.interrupt(t, p, w.line.Silence)
		}
	})
	goleak.VerifyNone(t, before)
}

func (s Suite) wrongAnswers(t *testing.T) {
	w := s.world(t)
	for name, h := range map[string]http.HandlerFunc{
		"nothing":    func(http.ResponseWriter, *http.Request) {},
		"no content": func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusNoContent) },
		"a page":     body("text/html", "<!doctype html><title>Sign in</title>"),
		"null":       body("application/json", "null"),
		"an object":  body("application/json", "{}"),
		"a list":     body("application/json", "[]"),
		"types":      body("application/json", `{"access_token":{},"id_token":[1],"sub":{},"id":{},"login":[]}`),
		"half":       body("application/json", `{"access_token":"x","id_tok`),
		"deep":       body("application/json", deep(100_000)),
		"not found":  func(rw http.ResponseWriter, r *http.Request) { http.NotFound(rw, r) },
		"forbidden":  func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "no", http.StatusForbidden) },
	} {
		for _, q := range w.asks() {
			call := q.prepare()
			w.answer(h)
			if q.name == "Check" { // not from an earlier answer
				call = w.open(w.Settings).Check
			}
			err := within(t, func() error { return call(t.Context()) })
			w.heal()
			switch {
			case q.name == "Check":
			case err == nil:
				t.Errorf("%s: %s makes somebody", q.name, name)
			case errors.Is(err, idp.ErrCredentials), errors.Is(err, errBoth):
				t.Errorf("%s: %s gives %v", q.name, name, err)
			case !errors.Is(err, idp.ErrRefused) && !errors.Is(err, idp.ErrUnavailable) && !errors.Is(err, idp.ErrGone):
				t.Errorf("%s: %s gives an error of no kind: %v", q.name, name, err)
			case q.name == "Refresh" && !errors.Is(err, idp.ErrUnavailable): // that would end the session
				t.Errorf("%s: %s gives %v", q.name, name, err)
			}
		}
	}
}

func (s Suite) redirects(t *testing.T) {
	w := s.world(t)
	var trapped atomic.Int64
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { trapped.Add(1) }))
	defer trap.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{trap.URL, "http://169.254.169.254/latest/meta-data/"} {
			for _, q := range w.asks() {
				call := q.prepare()
				w.answer(func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, to, status) })
				if err := within(t, func() error { return call(t.Context()) }); err == nil && q.name != "Check" {
					t.Errorf("%s: %d to %s is followed", q.name, status, to)
				}
				w.heal()
			}
		}
	}
	if trapped.Load() > 0 {
		t.Errorf("%d requests went to where the server pointed", trapped.Load())
	}
}

func (s Suite) endless(t *testing.T) {
	const far = 32 << 20 // more than any login may read
	w := s.world(t)
	for _, start := range []string{`{"access_token":"`, "<", " ", `{"keys":[`} {
		for _, q := range w.asks() {
			call := q.prepare()
			var written atomic.Int64
			w.answer(func(rw http.ResponseWriter, r *http.Request) {
				chunk := make([]byte, 64<<10)
				for i := range chunk {
					chunk[i] = ' '
				}
				_, err := rw.Write([]byte(start))
				for ; err == nil && written.Load() < far; written.Add(int64(len(chunk))) {
					_, err = rw.Write(chunk)
				}
			})
			if q.name == "Check" {
				call = w.open(w.Settings).Check
			}
			err := within(t, func() error { return call(t.Context()) })
			if err == nil && q.name != "Check" || written.Load() >= far {
				t.Errorf("%s: %v, after %d bytes", q.name, err, written.Load())
			}
			w.heal()
		}
	}
}

func body(kind, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write([]byte(text))
	}
}

func deep(n int) string {
	b := make([]byte, 2*n)
	for i := range n {
		b[i], b[2*n-1-i] = '[', ']'
	}
	return string(b)
}
