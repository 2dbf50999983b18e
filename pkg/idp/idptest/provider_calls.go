package idptest

import (
	"context"
	"errors"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// ask is a call that reaches the server. prepare is called without faults, and returns the call.
type ask struct {
	name    string
	prepare func() func(ctx context.Context) error
}

// errBoth is the error for a result that has both an identity and an error.
var errBoth = errors.New("an identity came along with an error")

// asks returns all calls that the provider can make.
func (w *world) asks() []ask { return w.asksOf(w.provider) }

// asksOf returns the calls of p; the world's own provider prepares them.
func (w *world) asksOf(p idp.Provider) []ask {
	out := []ask{{"Check", func() func(context.Context) error { return p.Check }}}
	if p, ok := p.(idp.Password); ok {
		out = append(out, ask{"Login", func() func(context.Context) error {
			return func(ctx context.Context) error { return nobody(p.Login(ctx, w.Username, w.Password)) }
		}})
	}
	if p, ok := p.(idp.Redirect); ok {
		out = append(out, ask{"Finish", func() func(context.Context) error {
			back := w.arrive(begin())
			return func(ctx context.Context) error { return nobody(p.Finish(ctx, back)) }
		}})
	}
	if p, ok := p.(idp.Refresher); ok {
		out = append(out, ask{"Refresh", func() func(context.Context) error {
			who := w.mustLogin()
			return func(ctx context.Context) error { return nobody(p.Refresh(ctx, who.Subject, who.Refresh)) }
		}})
	}
	return out
}

func nobody(who *idp.Identity, err error) error {
	if err != nil && who != nil {
		return errors.Join(errBoth, err)
	}
	return err
}

// within waits for a call, and fails the test if it hangs.
func within(t *testing.T, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(guard):
		t.Fatal("the call does not end")
		return nil
	}
}

// unavailable checks that an error says that the provider can't be reached, and nothing else.
func unavailable(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, idp.ErrUnavailable) {
		t.Errorf("want ErrUnavailable, got: %v", err)
	}
	for _, other := range []error{idp.ErrCredentials, idp.ErrRefused, idp.ErrGone, errBoth} {
		if errors.Is(err, other) {
			t.Errorf("an outage is taken for %q: %v", other, err)
		}
	}
}
