package session

import (
	"cmp"
	"slices"
	"time"
)

// waiting counts a user's devices that have not claimed their sessions.
func (s *index) waiting(uid string) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	now, n := s.Now(), 0
	for _, p := range s.byUser[uid] {
		if r := s.byName[p.name]; r.phase != "" && now.Before(r.idleEnd(Lifetime{})) {
			n++
		}
	}
	return n
}

// Of returns the sessions of a user, the newest first.
func (s *index) Of(uid string) []*Session {
	s.mu.RLock()
	list := s.live(uid)
	s.mu.RUnlock()
	now := s.Now()
	var out []*Session
	for _, r := range slices.Backward(list) {
		if now.Before(r.idleEnd(s.Lifetime(r.Client))) {
			out = append(out, &r.Session)
		}
	}
	return out
}

// position orders the sessions of a user.
type position struct {
	sequence int64
	name     string
}

func (p position) compare(o position) int {
	return cmp.Or(cmp.Compare(p.sequence, o.sequence), cmp.Compare(p.name, o.name))
}

func (r *cached) position() position { return position{r.sequence, r.Name} }

// limit ends the oldest sessions above the limit of r's user. The lock is held.
func (s *index) limit(r *cached) {
	most := s.PerUser
	switch {
	case r.self != nil && r.Registration == nil:
		most = maxClient
	case s.Single:
		s.single(r.UserUID)
		return
	}
	list := s.live(r.UserUID)
	excess := len(list) - most
	for _, old := range list {
		if excess <= 0 {
			return
		}
		if old.Name == r.Name || old.Name == r.Parent { // the sessions opened in a browser ended with its session
			continue
		}
		s.scheduleEnd(old.Name, "too many")
		excess--
	}
}

// live returns the sessions of a user for which tokens may be valid, the oldest first. The lock is held.
func (s *index) live(uid string) []*cached {
	var out []*cached
	for _, p := range s.byUser[uid] {
		if r := s.byName[p.name]; r.phase == "" {
			out = append(out, r)
		}
	}
	return out
}

// single ends all sessions of a user except those of the newest login: a browser and what was opened in it are one login. The lock is held.
func (s *index) single(uid string) {
	list := s.live(uid)
	newest, at := "", int64(-1)
	for _, r := range list {
		if root, n := s.login(r); n >= at {
			newest, at = root, n
		}
	}
	for _, r := range list {
		if root, _ := s.login(r); root != newest {
			s.scheduleEnd(r.Name, "other login")
		}
	}
}

// login returns the login that a session belongs to: its first session and its sequence number. The lock is held.
func (s *index) login(r *cached) (root string, sequence int64) {
	if r.Parent == "" {
		return r.Name, r.sequence
	}
	if p := s.byName[r.Parent]; p != nil {
		return p.Name, p.sequence
	}
	if s.gone.Has(r.Parent) {
		return r.Parent, 0
	}
	return r.Parent, r.sequence
}

// sequence returns a number higher than those of the user's other sessions, even if the clock of the replica that opened them is ahead:
// the newest login has to be the last to end.
func (s *index) sequence(uid string, now time.Time) int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := max(0, now.UnixMilli())
	if list := s.byUser[uid]; len(list) > 0 {
		if last := list[len(list)-1].sequence + 1; last > n && last < n+time.Hour.Milliseconds() {
			return last
		}
	}
	return n
}
