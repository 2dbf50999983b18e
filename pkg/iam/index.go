package iam

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
)

// maxClient bounds the sessions that a client has for itself. It gets the one it has, so more of them have other scopes.
const maxClient = 1024

// tomb is the object of an ended session, and until when it keeps the name.
type tomb struct {
	uid   types.UID
	until time.Time
	// asks is the UID of the user whose sessions the object is kept for, to ask about him with; "" where it is not. since
	// is when this replica learned of that.
	asks  string
	since time.Time
}

// put takes r in where it tells something new, and returns what is known then; nil where the session
// is over. The lock is held.
func (s *Sessions) put(r *record) *record {
	if s.gone.has(r.Name) {
		return nil
	}
	if r.phase == v1alpha1.PhaseEnded {
		s.drop(r.Name)
		return nil
	}
	s.pool.share(r)
	old := s.byName[r.Name]
	if old == nil {
		s.insert(r)
		if r.bound() && s.gone.has(r.Parent) {
			s.condemn(r.Name, "browser logged out")
			return nil
		}
		return r
	}
	next := *r
	if r.older(old) {
		next = *old // the feed lags behind what was written or read here
	}
	next.seen = old.seen
	if next.generation > old.generation {
		next.seen = s.Now()
	}
	if old.until.IsZero() || r.until.IsZero() {
		next.until = time.Time{}
	} else {
		next.until = r.until
	}
	if next.UserUID == old.UserUID && next.sequence == old.sequence {
		s.byName[r.Name] = &next
		return &next
	}
	s.forget(r.Name) // a User has come for the registration
	s.insert(&next)
	return &next
}

// insert takes a new session into the index. The lock is held.
func (s *Sessions) insert(r *record) {
	s.byName[r.Name] = r
	list := s.byUser[r.UserUID]
	i, _ := slices.BinarySearchFunc(list, r.place(), place.compare)
	s.byUser[r.UserUID] = slices.Insert(list, i, r.place())
}

// drop forgets a session, never believes it again, and ends what was opened in it. The lock is held.
func (s *Sessions) drop(name string) *record {
	s.gone.add(name)
	r := s.forget(name)
	if r == nil || r.Client != "" {
		return r
	}
	for _, p := range slices.Clone(s.byUser[r.UserUID]) {
		if child := s.byName[p.name]; child != nil && child.Parent == name && child.bound() {
			s.condemn(p.name, "browser logged out")
		}
	}
	return r
}

// forget takes a session out of the index. The lock is held.
func (s *Sessions) forget(name string) *record {
	r := s.byName[name]
	if r == nil {
		return nil
	}
	delete(s.byName, name)
	list := s.byUser[r.UserUID]
	if i, ok := slices.BinarySearchFunc(list, r.place(), place.compare); ok {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		delete(s.byUser, r.UserUID)
	} else {
		s.byUser[r.UserUID] = list
	}
	return r
}

// bury notes the object of an ended session. The lock is held.
func (s *Sessions) bury(r *record) {
	s.drop(r.Name)
	delete(s.doomed, r.Name)
	t := tomb{uid: r.uid, until: r.Created.Add(CodeLife + s.Skew)}
	if r.kept {
		t.until, t.asks, t.since = r.Expires.Add(s.Skew), r.UserUID, s.Now()
		if old, ok := s.tombs[r.Name]; ok && old.asks != "" {
			t.since = old.since
		}
	}
	s.tombs[r.Name] = t
}

// limit ends the sessions that r's user has too many of. The lock is held.
func (s *Sessions) limit(r *record) {
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
		if old.Name == r.Name || old.Name == r.Parent { // with the browser's session went all that was opened in it
			continue
		}
		s.condemn(old.Name, "too many")
		excess--
	}
}

// live lists the sessions of a user that tokens may name, the oldest first. The lock is held.
func (s *Sessions) live(uid string) []*record {
	var out []*record
	for _, p := range s.byUser[uid] {
		if r := s.byName[p.name]; r.phase == "" {
			out = append(out, r)
		}
	}
	return out
}

// single ends all sessions of a user but those of his newest login: a browser and what was opened in it are one. The
// lock is held.
func (s *Sessions) single(uid string) {
	list := s.live(uid)
	newest, at := "", int64(-1)
	for _, r := range list {
		if root, n := s.login(r); n >= at {
			newest, at = root, n
		}
	}
	for _, r := range list {
		if root, _ := s.login(r); root != newest {
			s.condemn(r.Name, "other login")
		}
	}
}

// login returns which login a session belongs to, and when that was. The lock is held.
func (s *Sessions) login(r *record) (root string, sequence int64) {
	if r.Parent == "" {
		return r.Name, r.sequence
	}
	if p := s.byName[r.Parent]; p != nil {
		return p.Name, p.sequence
	}
	if s.gone.has(r.Parent) {
		return r.Parent, 0
	}
	return r.Parent, r.sequence
}
