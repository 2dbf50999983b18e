package session

import (
	"slices"
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
