package hub

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// existingEvery is the shortest time between two questions which Clusters there are: anybody may ask to be linked as one that is unknown.
	existingEvery = time.Second
	// existingTimeout bounds such a question, and existingWaiting who waits for its answer.
	existingTimeout = 10 * time.Second
	existingWaiting = 32
)

// existing are the UIDs of the Clusters that there are, as kube-apiserver says. What this replica knows may be too little: it has just
// started, or its watch is behind. A member that is told that its Cluster has been deleted drops its identity.
type existing struct {
	waiting atomic.Int32

	mu    sync.Mutex
	begun time.Time // of the last question, by the clock of the machine
	uids  map[string]bool
	err   error
}

// deleted returns the answer to a member whose Cluster this replica does not know: that it has been deleted, where kube-apiserver says so
// since it was asked, or that it is to try again. A request that comes meanwhile gets the same answer.
func (h *Hub) deleted(ctx context.Context, uid string) error {
	x, arrived := &h.existing, time.Now()
	defer x.waiting.Add(-1)
	if x.waiting.Add(1) > existingWaiting {
		return notYet()
	}
	for ctx.Err() == nil {
		if done, err := x.ask(ctx, arrived, uid, h); done {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(existingEvery / 10):
		}
	}
	return notYet()
}

// notYet is the answer to a member whose Cluster there may be.
func notYet() error {
	return status.RetryAfter(1, status.Errorf(http.StatusServiceUnavailable,
		"this replica of the hub does not know the Cluster of this member yet: try again"))
}

// ask reports whether there is an answer to a question that arrived at a time, and returns it.
func (x *existing) ask(ctx context.Context, arrived time.Time, uid string, h *Hub) (done bool, _ error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.begun.After(arrived) {
		if time.Since(x.begun) < existingEvery {
			return false, nil
		}
		x.begun = time.Now()
		asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), existingTimeout)
		defer cancel()
		all, err := h.list(asked)
		x.err, x.uids = err, map[string]bool{}
		for i := range all {
			if all[i].DeletionTimestamp.IsZero() {
				x.uids[string(all[i].UID)] = true
			}
		}
	}
	if x.err != nil || x.uids[uid] {
		return true, notYet()
	}
	return true, status.Errorf(http.StatusGone, "the Cluster of this member has been deleted: create one, and join with its token")
}
