package lockout

import (
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/recent"
	"kapis.dev/ks-apiserver/pkg/request"
)

const (
	// firstDelay is the delay after the tries are used up. It doubles with each further failure, up to lastDelay.
	firstDelay = 4 * time.Second
	lastDelay  = 16 * time.Second
	// sharedFor is how long an address counts as shared after two users have logged in from it.
	sharedFor = 24 * time.Hour
)

// share marks an attempt from a shared address. The console reports the browser's address, but any client could do the same: so that
// address only selects among the networks that the user has logged in from. Codes of second factors are excluded: they follow a
// right password.
func (l *Limiter) share(a *Attempt, who, at string, o iam.Origin) {
	claimed := request.NetworkOf(o.Claimed)
	if a.way == Code {
		if o.Shared && claimed != "" {
			a.visited, a.place = false, recent.KeyOf("place", at, "shared", claimed)
		}
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.Now()
	a.at = recent.KeyOf("shared", at)
	if o.Shared {
		l.shared.Add(a.at, 1, now, sharedFor)
	} else if l.shared.Count(a.at, now) == 0 {
		return
	}
	a.shared, a.visited, a.place, a.recent = true, false, 0, 0
	a.id, a.key, a.source = recent.KeyOf(string(a.way), who, at, "shared"), recent.KeyOf(string(a.way), at,
		"shared"), recent.KeyOf("source", at, "shared", claimed)
	if claimed == "" {
		return
	}
	a.place, a.recent = recent.KeyOf("place", at, "shared", claimed), recent.KeyOf("recent", who, at, claimed)
	noted := false
	if a.User != nil {
		_, noted = l.byUser[a.User.UID].knows(a.place, now)
	}
	if noted || l.recent.Count(a.recent, now) > 0 {
		a.known = true
		a.id, a.key = recent.KeyOf(string(a.way), who, at, "shared", claimed), recent.KeyOf(string(a.way), at, "shared", claimed)
	}
}

// throttle refuses an attempt from a shared address that comes too soon after the last failure.
func (l *Limiter) throttle(a *Attempt, led *state, local recent.Count, now time.Time) error {
	stored := led.of(a.key)
	count, last := stored.in(now, l.Window), stored.since
	if now.Before(local.End) {
		count += local.Count
		if at := local.End.Add(-l.Window); at.After(last) {
			last = at
		}
	}
	over := int(count) - l.Tries
	if over < 0 {
		return nil
	}
	wait := firstDelay
	for range over {
		if wait *= 2; wait >= lastDelay {
			wait = lastDelay
			break
		}
	}
	if wait -= now.Sub(last); wait <= 0 {
		return nil
	}
	l.refused.WithLabelValues("throttle").Inc()
	return &iam.ThrottledError{After: wait}
}

// succeeded records that a user logged in from an address: after two users it is shared. The lock is held.
func (l *Limiter) succeeded(a *Attempt, now time.Time) {
	if a.at == 0 || a.shared {
		return
	}
	who := recent.KeyOf("user " + a.User.UID)
	first, ok := l.first.Get(a.at)
	switch {
	case !ok:
		l.first.Set(a.at, who)
	case first != who:
		l.shared.Add(a.at, 1, now, sharedFor)
	}
}
