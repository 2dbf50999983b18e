package session

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/token"
)

func refreshed(t testing.TB, r *replica, refresh string) string {
	t.Helper()
	return refreshedOf(t, r, "kubesphere", refresh)
}

func refreshedOf(t testing.TB, r *replica, client, refresh string) string {
	t.Helper()
	_, u, next, err := r.Refresh(t.Context(), client, refresh, admit)
	if err != nil || u == nil {
		t.Fatal(err)
	}
	return next
}

func refused(t testing.TB, r *replica, client, refresh string) {
	t.Helper()
	if _, _, _, err := r.Refresh(t.Context(), client, refresh, admit); !errors.Is(err, iam.ErrRefresh) {
		t.Errorf("got %v, want a refusal", err)
	}
}

func pastGrace(all ...*replica) {
	for _, r := range all {
		r.clock.Step(defaultGrace + 2*time.Second)
	}
}

// T9700-9: rotation.
func TestRefreshRotates(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	s, first := login(t, r[0], "alice")
	next := refreshed(t, r[1], first)
	if next == first {
		t.Error("the same token")
	}
	o := a.objects[s.Name]
	if o.Refresh.Current != token.HashRefresh(next) || o.Refresh.Previous != token.HashRefresh(first) || o.Refresh.Generation != 2 {
		t.Errorf("stored %+v", o.Refresh)
	}
	pastGrace(r...)
	if third := refreshed(t, r[0], next); third == next {
		t.Error("the second rotation gave the same token")
	}
}

// T9700-9, S36: reuse after the grace ends the session, on all replicas, with its newest token.
func TestReuseAfterTheGraceEndsTheSession(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	s, first := login(t, r[0], "alice")
	next := refreshed(t, r[0], first)
	pastGrace(r...)
	refused(t, r[1], "kubesphere", first)
	if r[0].alive(t, s) || r[1].alive(t, s) || a.size() != 0 {
		t.Error("the session lives")
	}
	refused(t, r[0], "kubesphere", next)
}

// A lost answer, and a second tab: within the grace period the token gets its successor.
func TestPreviousTokenGetsItsSuccessorInTheGrace(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	_, first := login(t, r[0], "alice")
	next := refreshed(t, r[0], first)
	writes := a.count("update")
	for i := range r {
		if got := refreshed(t, r[i], first); got != next {
			t.Errorf("replica %d gave another successor", i)
		}
		if got := refreshed(t, r[i], next); got != next {
			t.Errorf("replica %d rotated in the grace, which leaves the others two steps behind", i)
		}
	}
	if a.count("update") != writes {
		t.Error("a refresh in the grace writes")
	}
}

// The console refreshes in parallel with one token: all succeed, and all results stay usable.
func TestFiftyParallelRefreshesOnTwoReplicasAllSucceed(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	s, first := login(t, r[0], "alice")
	results := make([]string, 50)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			_, _, next, err := r[i%2].Refresh(t.Context(), "kubesphere", first, admit)
			if err != nil {
				t.Error(err)
			}
			results[i] = next
		})
	}
	wg.Wait()
	for _, next := range results {
		if next != results[0] || next == first {
			t.Errorf("different successors")
		}
	}
	if g := a.objects[s.Name].Refresh.Generation; g != 2 {
		t.Errorf("generation %d: more than one rotation won", g)
	}
	pastGrace(r...)
	refreshed(t, r[1], results[49])
	if !r[0].alive(t, s) {
		t.Error("the session is over")
	}
}

// The clock of one replica is 24 s ahead; it has just learned of the rotation, and reports no reuse.
func TestClocksThatDifferRaiseNoAlarm(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	s, first := login(t, r[0], "alice")
	r[1].clock.Step(24 * time.Second)
	next := refreshed(t, r[0], first)
	if got := refreshed(t, r[1], first); got != next {
		t.Error("another successor")
	}
	a.hold(1)
	pastGrace(r...)
	third := refreshed(t, r[0], next)
	if got := refreshed(t, r[1], next); got != third || !r[1].alive(t, s) { // learned by a read
		t.Error("another successor")
	}
}

// The tolerance for clocks does not extend the grace period without a bound.
func TestClockToleranceIsBounded(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	_, first := login(t, r[0], "alice")
	a.hold(1) // the second replica does not learn of the rotation
	refreshed(t, r[0], first)
	r[1].clock.Step(time.Minute)
	refused(t, r[1], "kubesphere", first)
	if a.size() != 0 {
		t.Error("the session lives")
	}
}

// T6749-22: a refresh token is bound to its client.
func TestRefreshIsBoundToItsClient(t *testing.T) {
	_, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	s, first := login(t, r[0], "alice")
	refused(t, r[0], "harbor", first)
	if !r[0].alive(t, s) {
		t.Error("another client's attempt ended the session")
	}
	refreshed(t, r[0], first)
}

// S35, S58: a refresh token that was not issued here causes no API call.
func TestForgedRefreshTokenReachesNoAPI(t *testing.T) {
	a, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	s, first := login(t, r[0], "alice")
	before := a.count("get")
	for _, forged := range []string{"", "x", s.Name, s.Name + ".1.", first[:len(first)-2] + "AA", strings.Replace(first, ".1.", ".2.", 1),
		strings.Replace(first, s.Name, "a"+s.Name[1:], 1), first + ".", strings.Repeat("A", 1<<16)} {
		refused(t, r[0], "kubesphere", forged)
	}
	if a.count("get") != before || !r[0].alive(t, s) {
		t.Error("a forged token was looked up, or did harm")
	}
}

func TestSessionThatIsNotUsedForTooLongIsOver(t *testing.T) {
	for name, test := range map[string]struct {
		wait time.Duration
		ok   bool
	}{
		"just before": {3*time.Hour - time.Second, true},
		"just after":  {3 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, r := newReplicas(t, 1, nil)
			tellUsers(iamtest.User("alice"), r...)
			_, first := login(t, r[0], "alice")
			r[0].clock.Step(test.wait)
			if _, _, _, err := r[0].Refresh(t.Context(), "kubesphere", first, admit); (err == nil) != test.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRefreshThatIsNotAdmittedWritesNothing(t *testing.T) {
	a, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	_, first := login(t, r[0], "alice")
	no := errors.New("no")
	if _, _, _, err := r[0].Refresh(t.Context(), "kubesphere", first, func(*Session) error { return no }); !errors.Is(err, no) {
		t.Errorf("got %v", err)
	}
	if a.count("update") != 0 {
		t.Error("written")
	}
	refreshed(t, r[0], first)
}

// stale answers a read with the state before a rotation that has arrived meanwhile.
type stale struct {
	Backend
	before func()
}

func (s stale) Get(ctx context.Context, name string) (*v1alpha1.Session, error) {
	o, err := s.Backend.Get(ctx, name)
	s.before()
	return o, err
}

// A read that started before a rotation, which the feed has already brought, was taken for reuse.
func TestRotationBetweenReadAndCheckIsNoReuse(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	_, first := login(t, r[0], "alice")
	next := ""
	r[0].API = stale{a, func() {
		if next == "" {
			next = refreshed(t, r[1], first)
		}
	}}
	if got := refreshed(t, r[0], first); got != next {
		t.Error("another successor")
	}
}
