package session

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
)

func (r *replica) redeem(t testing.TB, name string) (*Session, error) {
	t.Helper()
	s, _, err := r.Open(t.Context(), Login{AuthnResult: iam.AuthnResult{User: r.users.ByName("alice")}, Client: "harbor", Name: name})
	return s, err
}

// T6749-15: a code opens one session; when the code is presented again, that session ends on all replicas.
func TestCodeThatComesAgainEndsItsSession(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	name := r[0].NewName()
	s, err := r[0].redeem(t, name)
	if err != nil {
		t.Fatal(err)
	}
	if !r[1].alive(t, s) {
		t.Fatal("refused before the code came again")
	}
	if _, err := r[1].redeem(t, name); !errors.Is(err, iam.ErrUsed) {
		t.Errorf("got %v", err)
	}
	if r[0].alive(t, s) || r[1].alive(t, s) {
		t.Error("the session lives")
	}
	if o := a.objects[name]; o == nil || o.Phase != v1alpha1.PhaseEnded || o.Refresh.Current != "" {
		t.Errorf("left behind: %+v", o)
	}
}

// T6749-15: 50 parallel redemptions on two replicas, exactly one success; then its tokens are dead.
func TestFiftyParallelRedemptionsOpenOneSession(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	name := r[0].NewName()
	var opened, used atomic.Int64
	var first atomic.Pointer[Session]
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			s, err := r[i%2].redeem(t, name)
			switch {
			case err == nil:
				opened.Add(1)
				first.Store(s)
			case errors.Is(err, iam.ErrUsed):
				used.Add(1)
			case errors.Is(err, iam.ErrUnavailable): // it was ended as soon as it was opened
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if opened.Load() > 1 || used.Load() < 48 {
		t.Errorf("%d opened, %d refused", opened.Load(), used.Load())
	}
	for i := range r {
		if s := first.Load(); s != nil && r[i].alive(t, s) {
			t.Errorf("alive on replica %d", i)
		}
	}
	if a.objects[name].Phase != v1alpha1.PhaseEnded {
		t.Error("the name can be used again")
	}
}

// T6749-15: after a logout, or a restart of the server, the code still opens nothing; when it is over, nothing is left.
func TestNameOfAnEndedSessionStaysTakenAsLongAsItsCode(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, r *replica, s *Session){
		"logout": func(t *testing.T, r *replica, s *Session) {
			if err := r.End(t.Context(), s.Name, "logout"); err != nil {
				t.Fatal(err)
			}
		},
		"swept": func(t *testing.T, r *replica, _ *Session) {
			r.users.Delete("", "alice")
			r.Sweep(t.Context())
			tellUsers(iamtest.User("alice"), r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, r := newReplicas(t, 2, nil)
			tellUsers(iamtest.User("alice"), r...)
			a.hold(1) // knows of no session, as after a restart
			s, err := r[0].redeem(t, r[0].NewName())
			if err != nil {
				t.Fatal(err)
			}
			end(t, r[0], s)
			for i := range r {
				if _, err := r[i].redeem(t, s.Name); !errors.Is(err, iam.ErrUsed) {
					t.Errorf("replica %d: %v", i, err)
				}
			}
			writes := a.count("create") + a.count("update")
			if _, err := r[0].redeem(t, s.Name); !errors.Is(err, iam.ErrUsed) || a.count("create")+a.count("update") != writes {
				t.Error("what is known to be used is written about")
			}
			r[0].clock.Step(CodeLife)
			r[0].Sweep(t.Context())
			if a.size() != 1 {
				t.Error("forgotten while a replica with another clock may still take the code")
			}
			r[0].clock.Step(31 * time.Second)
			r[0].Sweep(t.Context())
			if a.size() != 0 {
				t.Error("left behind for good")
			}
		})
	}
}

func TestLoginWhoseAnswerWasLostLeavesNoSession(t *testing.T) {
	a, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	a.inject = func(verb string) (before, after error) { return nil, errors.New("lost") }
	_, _, err := r[0].Open(t.Context(), Login{AuthnResult: iam.AuthnResult{User: r[0].users.ByName("alice")}, Client: "kubesphere"})
	if !errors.Is(err, iam.ErrUnavailable) || a.size() != 1 {
		t.Fatalf("%v, %d objects", err, a.size())
	}
	a.inject = nil
	r[0].Sweep(t.Context())
	if a.size() != 0 {
		t.Error("a session that nobody has is left behind")
	}
}

func TestPendingProofOpensNothing(t *testing.T) {
	a, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	l := Login{AuthnResult: iam.AuthnResult{User: r[0].users.ByName("alice"), Pending: true}, Client: "kubesphere"}
	if _, _, err := r[0].Open(t.Context(), l); err == nil {
		t.Error("opened")
	}
	l.Name = "x"
	if err := r[0].Approve(t.Context(), l); err == nil || a.size() != 0 {
		t.Error("approved")
	}
}
