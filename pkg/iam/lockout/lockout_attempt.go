package lockout

import (
	"context"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
)

// Attempt is an admitted attempt. The caller ends it by one of Fail, Succeed and Cancel.
type Attempt struct {
	l    *Limiter
	User *iam.User // nil if no user has the name
	way  Method
	// id is the hash of the method, name and network, and all the same without the network, for counts in memory; key is
	// the hash of the method and the network.
	id, all, key  uint64
	place, source uint64
	// recent is the user and the network of recent successes, and at the address alone; 0 for none.
	recent, at uint64
	visited    bool
	// free says that the attempt is counted only if it fails.
	known, free bool
	// shared says that many users log in from the address.
	shared bool
	// reserved says that it is counted in the Lockout already, local that it is in memory.
	reserved, local bool
}

// Fail ends an attempt that failed.
func (a *Attempt) Fail(ctx context.Context) {
	defer a.l.leave(a)
	a.l.mu.Lock()
	if !a.known {
		a.l.sources.Add(a.source, 1, a.l.Now(), sprayWindow)
	}
	a.l.mu.Unlock()
	if !a.free {
		return
	}
	if a.User == nil {
		a.l.remember(a, 1)
		return
	}
	if err := a.l.change(ctx, a.User.UID, a.User.Name, func(led *state, now time.Time) (*state, error) {
		return a.failed(led, 1, now), nil
	}); err != nil {
		a.l.remember(a, 1)
	}
}

// Cancel ends an attempt whose password could not be checked.
func (a *Attempt) Cancel() {
	defer a.l.leave(a)
	switch {
	case a.local:
		a.l.remember(a, -1)
	case a.reserved:
		a.l.settle(pendingWrite{a, -1})
	}
}

// Succeed ends an attempt that was right; complete says that the login needs nothing more, so that the network is known from now on. It
// fails with ErrLimited if other attempts have used up the tries meanwhile: too many uncounted attempts may have run at once, and the
// right one must look like the others.
func (a *Attempt) Succeed(complete bool) error {
	l := a.l
	defer l.leave(a)
	l.mu.Lock()
	now := l.Now()
	led := l.byUser[a.User.UID]
	at, noted := led.knows(a.place, now)
	own := led.of(a.key).in(now, l.Window)
	if a.free && !a.shared && own+l.local.Count(a.id, now) >= int32(l.Tries) {
		l.mu.Unlock()
		return l.limited("place")
	}
	switch {
	case a.shared && !a.known && a.local:
		l.add(a, -1)
	case !a.shared || a.known:
		l.local.Delete(a.id)
	}
	if complete {
		l.succeeded(a, now)
	}
	learns := complete && a.recent != 0
	if learns {
		l.recent.Add(a.recent, 1, now, knownFresh)
	}
	n := 0
	if learns && (!noted || now.Sub(at) >= knownFresh) {
		n = 1
	}
	write := n > 0 || a.reserved || own > 0
	if write && led != nil { // counts here at once, and is written in the background
		l.byUser[a.User.UID] = a.cleared(led, n, now)
	}
	l.mu.Unlock()
	if write {
		l.settle(pendingWrite{a, n})
	}
	return nil
}

// cleared returns a state after a success, with its network known if n is above 0.
func (a *Attempt) cleared(led *state, n int, now time.Time) *state {
	var from *uint64
	if n > 0 {
		from = &a.place
	}
	return a.taken(led, from, now)
}
