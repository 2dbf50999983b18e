package session

import (
	"slices"
	"time"

	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// wake makes Run call Sweep soon.
func (s *index) wake() {
	select {
	case s.wanted <- struct{}{}:
	default: // it is woken already
	}
}

// over returns the objects that are to be deleted.
func (s *index) over() []deletion {
	// Users may be behind again, long after they were loaded.
	now, synced, complete := s.Now(), s.synced(), s.Users.Complete() == nil
	var out []deletion
	var stale []string
	s.mu.RLock()
	for _, d := range s.pending {
		out = append(out, d)
	}
	for name, t := range s.tombstones {
		if now.After(t.until) || synced && s.unneeded(name, t, now) {
			out = append(out, deletion{record: &cached{Session: Session{Name: name}, uid: t.uid}, reason: reasonTombstone})
		}
	}
	for name, r := range s.byName {
		if len(out) >= sweepAtMost {
			break
		}
		if !r.until.IsZero() && now.After(r.until) {
			stale = append(stale, name) // the feed never brought it: it no longer exists
			continue
		}
		if reason := s.endOf(r, now, synced, complete); reason != "" {
			out = append(out, deletion{record: r, reason: reason})
		}
	}
	s.mu.RUnlock()
	s.mu.Lock()
	for _, name := range stale {
		if r := s.byName[name]; r != nil && !r.until.IsZero() {
			s.forget(name)
		}
	}
	s.mu.Unlock()
	return slices.Clip(out[:min(len(out), sweepAtMost)])
}

// endOf returns why a session is over, or "". The lock is held.
func (s *index) endOf(r *cached, now time.Time, synced, complete bool) string {
	end := r.Expires
	if synced {
		end = r.idleEnd(s.Lifetime(r.Client))
	}
	if now.After(end.Add(s.Skew)) {
		return "expired"
	}
	if !synced || now.Sub(r.Created) < orphanAge {
		return ""
	}
	switch {
	case r.bound() && s.byName[r.Parent] == nil && (prefixOf(r.Parent) == "" || s.Prefix != nil && prefixOf(r.Parent) == s.Prefix()):
		return reasonLoggedOut
	case !s.enabled(r.Provider):
		return "provider disabled"
	case r.self != nil && r.Registration == nil:
		if _, err := s.userOf(r); err != nil {
			return "client changed"
		}
		return ""
	case r.self != nil, !complete: // the user, the password or the link may only not be known here
		return ""
	}
	switch u := s.Users.ByName(r.User); {
	case u == nil || u.UID != r.UserUID:
		return "user deleted"
	case u.State == v1beta1.UserDisabled:
		return "user disabled"
	case r.outdated(u):
		return "password changed"
	case !u.LinkedTo(r.Provider, r.subject):
		return "identity unlinked"
	}
	return ""
}

// dropped records that the object of a session is deleted.
func (s *index) dropped(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(name)
	delete(s.pending, name)
}

// outlive returns the end of the last session that was opened in a browser and outlives the browser's session; zero for none. The lock
// is held.
func (s *index) outlive(uid, parent string) (end time.Time) {
	for _, p := range s.byUser[uid] {
		if r := s.byName[p.name]; r != nil && r.Parent == parent && !r.bound() && r.Expires.After(end) {
			end = r.Expires
		}
	}
	return end
}

// unneeded reports whether an object that was kept for its upstream token is no longer needed. It waits before it decides, since the
// sessions that need the token may be in another backend, and become known later. The lock is held.
func (s *index) unneeded(name string, t tombstone, now time.Time) bool {
	return t.asks != "" && now.Sub(t.since) > orphanAge && s.outlive(t.asks, name).IsZero()
}
