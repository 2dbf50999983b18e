package iam

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
)

// maxClient bounds the sessions that a client has for itself. It gets the one it has, so more of them have other scopes.
const maxClient = 1024

// tombstone is the object of an ended session, and until when it keeps the name.
type tombstone struct {
	uid   types.UID
	until time.Time
	// asks is the UID of the user whose sessions the object is kept for, to ask about him with; "" where it is not. since
	// is when this replica learned of that.
	asks  string
	since time.Time
}

// put takes r in where it tells something new, and returns what is known then; nil where the session
// is over. The lock is held.
func (s *Sessions) put(r *cached) *cached {
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
			s.scheduleEnd(r.Name, "browser logged out")
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
func (s *Sessions) insert(r *cached) {
	s.byName[r.Name] = r
	list := s.byUser[r.UserUID]
	i, _ := slices.BinarySearchFunc(list, r.position(), position.compare)
	s.byUser[r.UserUID] = slices.Insert(list, i, r.position())
}

// drop forgets a session, never believes it again, and ends what was opened in it. The lock is held.
func (s *Sessions) drop(name string) *cached {
	s.gone.add(name)
	r := s.forget(name)
	if r == nil || r.Client != "" {
		return r
	}
	for _, p := range slices.Clone(s.byUser[r.UserUID]) {
		if child := s.byName[p.name]; child != nil && child.Parent == name && child.bound() {
			s.scheduleEnd(p.name, "browser logged out")
		}
	}
	return r
}

// forget takes a session out of the index. The lock is held.
func (s *Sessions) forget(name string) *cached {
	r := s.byName[name]
	if r == nil {
		return nil
	}
	delete(s.byName, name)
	list := s.byUser[r.UserUID]
	if i, ok := slices.BinarySearchFunc(list, r.position(), position.compare); ok {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		delete(s.byUser, r.UserUID)
	} else {
		s.byUser[r.UserUID] = list
	}
	return r
}

// addTombstone notes the object of an ended session. The lock is held.
func (s *Sessions) addTombstone(r *cached) {
	s.drop(r.Name)
	delete(s.pending, r.Name)
	t := tombstone{uid: r.uid, until: r.Created.Add(CodeLife + s.Skew)}
	if r.keepsToken {
		t.until, t.asks, t.since = r.Expires.Add(s.Skew), r.UserUID, s.Now()
		if old, ok := s.tombstones[r.Name]; ok && old.asks != "" {
			t.since = old.since
		}
	}
	s.tombstones[r.Name] = t
}

// limit ends the sessions that r's user has too many of. The lock is held.
func (s *Sessions) limit(r *cached) {
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
		s.scheduleEnd(old.Name, "too many")
		excess--
	}
}

// live lists the sessions of a user that tokens may name, the oldest first. The lock is held.
func (s *Sessions) live(uid string) []*cached {
	var out []*cached
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
			s.scheduleEnd(r.Name, "other login")
		}
	}
}

// login returns which login a session belongs to, and when that was. The lock is held.
func (s *Sessions) login(r *cached) (root string, sequence int64) {
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
