package session

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
)

// manyOver returns a replica that knows more sessions that are over than one sweep deletes.
func manyOver(t *testing.T) (*api, *replica) {
	t.Helper()
	a, r := newReplicas(t, 1, nil)
	for i := range sweepAtMost + 50 {
		name := fmt.Sprint("user", i)
		tellUsers(iamtest.User(name), r...)
		login(t, r[0], name)
	}
	r[0].clock.Step(DefaultAbsolute + time.Hour)
	return a, r[0]
}

// While a backend refuses deletions, they are tried again at the next tick, and not over and over.
func TestARefusedDeletionIsTriedAgainAtTheNextTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, r := manyOver(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var refused atomic.Int64
		a.inject = func(string) (before, after error) {
			if refused.Add(1) > 10 {
				cancel() // otherwise the test would not end
			}
			return errors.New("OOM command not allowed"), nil
		}
		r.wake()
		go r.Run(ctx)
		for ticks := range 3 {
			if synctest.Wait(); refused.Load() != int64(ticks+1) {
				t.Fatalf("after %d ticks %d deletions were tried", ticks, refused.Load())
			}
			time.Sleep(sweepEvery)
		}
		synctest.Wait()
		a.mu.Lock()
		a.inject = nil
		a.mu.Unlock()
		time.Sleep(2 * sweepEvery)
		if n := a.size(); n != 0 {
			t.Errorf("%d sessions are left after the backend has taken deletions again", n)
		}
	})
}

func TestMoreThanOneSweepDeletesAreDeletedWithoutWaitingForTheNextTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, r := manyOver(t)
		r.wake()
		go r.Run(t.Context())
		time.Sleep(sweepEvery - time.Second) // of the bubble's clock
		if n := a.size(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}

// A replica that does not know all sessions ends those that it knows, and says that there may be others (O49).
func TestWhoEndsAllSessionsIsToldWhereNotAllAreKnown(t *testing.T) {
	incomplete := errors.New("sessions in Redis: not connected yet")
	a, r := newReplicas(t, 2, func(o *Options) { o.Complete = func() error { return incomplete } })
	tellUsers(iamtest.User("alice"), r...)
	known, _ := login(t, r[0], "alice")
	a.hold(1)
	unknown, _ := login(t, r[0], "alice")
	if err := r[1].EndAll(t.Context(), "uid-alice", "", "revoked"); !errors.Is(err, iam.ErrUnavailable) || !errors.Is(err, incomplete) {
		t.Errorf("got %v", err)
	}
	if r[0].alive(t, known) || !r[0].alive(t, unknown) {
		t.Errorf("the known one is alive: %v; the other: %v", r[0].alive(t, known), r[0].alive(t, unknown))
	}
	a.release(1)
	incomplete = nil
	iamtest.Want(t, r[1].EndAll(t.Context(), "uid-alice", "", "revoked"), nil)
	if r[0].alive(t, unknown) {
		t.Error("repeated where all are known, it ends not all")
	}
}
