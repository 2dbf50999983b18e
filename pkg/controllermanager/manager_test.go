package controllermanager

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"kapis.dev/ks-apiserver/tools/pace"
)

// work is a manager that works until its context or its work has ended.
type work struct {
	manager.Manager
	begun chan context.Context
	done  chan struct{}
}

func (w work) Start(ctx context.Context) error {
	w.begun <- ctx
	select {
	case <-ctx.Done():
	case <-w.done:
	}
	return nil
}

// kube-apiserver is told by the readiness that it is to call the webhooks elsewhere, and the webhooks answer until it has had time to.
func TestAStopIsAnnouncedBeforeTheWorkEnds(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Hour} {
		w := work{begun: make(chan context.Context, 1), done: make(chan struct{})}
		m := &Manager{mgr: w, delay: delay}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		working := <-w.begun
		if err := m.fault(nil); err != nil {
			t.Errorf("before the stop it is not ready: %v", err)
		}
		stop()
		if err := pace.Until(t.Context(), time.Minute, func(context.Context) error {
			if m.fault(nil) == nil {
				return errors.New("it is ready")
			}
			return nil
		}); err != nil {
			t.Errorf("after the stop: %v", err)
		}
		if delay > 0 {
			if working.Err() != nil {
				t.Errorf("the work has ended before %v were over", delay)
			}
			close(w.done)
		}
		if err := <-ended; err != nil {
			t.Errorf("a clean stop ended with %v", err)
		}
	}
}

func TestANegativeDelayIsRefused(t *testing.T) {
	if _, err := New(t.Context(), nil, Options{ShutdownDelay: -time.Second}); err == nil || !strings.Contains(err.Error(), "--shutdown-delay-duration") {
		t.Errorf("%v, want an error that names the flag", err)
	}
}

func TestATakenAddressIsToldBeforeAnythingStarts(t *testing.T) {
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	if err := free(t.Context(), address); err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("taken: %v, want an error that names %s", err, address)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{address, "0", ""} {
		if err := free(t.Context(), a); err != nil {
			t.Errorf("%q: %v", a, err)
		}
	}
}
