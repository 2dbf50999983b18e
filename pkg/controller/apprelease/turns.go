package apprelease

import (
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
)

const (
	// atOnce is how many operations of the store change something at once. The executor runs four, and hooks of a chart may take minutes:
	// the others are for extensions, and for what only reads.
	atOnce = 2
	// turnAgain is when a release asks for its turn again, and turnGone when one that has not done so is taken to want none any more: so
	// long others wait for one that was deleted, or asks for what it has.
	turnAgain = time.Second
	turnGone  = 3 * turnAgain
	// waits is the message of a release that waits.
	waits = "it waits: one operation of a workspace runs at once, and two of the application store"
)

// turns says which workspaces have an operation: each has one at once, and those that wait come before those that had theirs.
type turns struct {
	mu      sync.Mutex
	running map[string]bool
	waiting []waiter // who has waited longest first
}

type waiter struct {
	workspace string
	asked     time.Time
}

// take begins an operation, if it is the workspace's turn; done ends it.
func (t *turns) take(workspace string, now time.Time) (done func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = slices.DeleteFunc(t.waiting, func(w waiter) bool { return now.Sub(w.asked) > turnGone })
	ahead, at := 0, -1
	for i, w := range t.waiting {
		if w.workspace == workspace {
			at = i
			break
		}
		if !t.running[w.workspace] {
			ahead++
		}
	}
	if at < 0 {
		at = len(t.waiting)
		t.waiting = append(t.waiting, waiter{workspace: workspace})
	}
	t.waiting[at].asked = now
	if t.running[workspace] || len(t.running)+ahead >= atOnce {
		return nil, false
	}
	t.leave(workspace)
	if t.running == nil {
		t.running = map[string]bool{}
	}
	t.running[workspace] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.running, workspace)
		t.leave(workspace) // its other releases wait after those of others
	}, true
}

func (t *turns) leave(workspace string) {
	t.waiting = slices.DeleteFunc(t.waiting, func(w waiter) bool { return w.workspace == workspace })
}

// turn is turns.take for a release, unless its operation is quick: YAML documents take neither a process nor long.
func (r *Reconciler) turn(rel *v2.ApplicationRelease, quick bool) (done func(), ok bool) {
	if quick {
		return func() {}, true
	}
	return r.turns.take(rel.Labels[v2.LabelWorkspace], r.Now())
}

// waitForTurn is the result for a release whose turn it is not. Why one has failed stays said meanwhile: it may ask for that again.
func (r *Reconciler) waitForTurn(rel *v2.ApplicationRelease) reconcile.Result {
	if s := &rel.Status; s.State != v2.ReleaseFailed {
		r.enter(s, s.State, waits)
	}
	return reconcile.Result{RequeueAfter: turnAgain}
}
