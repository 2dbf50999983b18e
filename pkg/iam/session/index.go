package session

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/recent"
	"kapis.dev/ks-apiserver/pkg/store"
)

// maxClient is how many sessions a client that acts for itself may have. It reuses them, so that each has other scopes.
const maxClient = 1024

// tombstone is the object of an ended session that reserves its name until a time.
type tombstone struct {
	uid   types.UID
	until time.Time
	// asks is the UID of the user whose other sessions need the upstream token in the object, "" for none. since is when this replica
	// learned of the tombstone.
	asks  string
	since time.Time
}

// index has the sessions of all replicas in memory.
type index struct {
	Options

	mu     sync.RWMutex
	byName map[string]*cached
	byUser map[string][]position         // UID of the user -> the user's sessions, the oldest first
	gone   *recent.Map[string, struct{}] // ended: never accepted again
	// pending are ended sessions whose objects are not deleted yet; wanted wakes Run, which deletes them.
	pending map[string]deletion
	wanted  chan struct{}
	// tombstones are objects of ended sessions that keep their names from being used again.
	tombstones map[string]tombstone
	pool       pool
}

// deletion is an object to delete, and the reason.
type deletion struct {
	record *cached
	reason string
}

// Set stores a session that the feed brings.
func (s *index) Set(o *store.Object) {
	r, err := parseSession(o.Raw)
	if err != nil {
		klog.ErrorS(err, "A Session is left out, and its tokens are refused", "session", o.Name)
		s.Delete("", o.Name)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.phase == v1alpha1.PhaseEnded {
		s.addTombstone(r)
		return
	}
	if s.gone.Has(r.Name) {
		// It ended here, and its object is there again: a backup of etcd was restored, or the feed lags. What has ended stays so for all.
		if _, ok := s.pending[r.Name]; !ok {
			s.pending[r.Name] = deletion{record: r, reason: "ended before"}
			s.wake()
		}
		return
	}
	if s.put(r) != nil && s.Single {
		s.limit(r)
	}
}

// Delete removes a session whose object is gone.
func (s *index) Delete(_, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(name)
	delete(s.pending, name)
	delete(s.tombstones, name)
}

// synced reports whether all kinds are loaded whose absence of an object ends sessions.
func (s *index) synced() bool { return s.Synced == nil || s.Synced() }

// enabled reports whether the sessions of an identity provider count; "" is that of local passwords.
func (s *index) enabled(provider string) bool {
	return provider == "" || s.Enabled == nil || s.Enabled(provider)
}

// missing returns the error for a session that lacks something: it is over, unless that may only not be known yet.
func missing(what string, synced bool) error {
	if !synced {
		return fmt.Errorf("%w: its %s is not known yet", iam.ErrUnavailable, what)
	}
	return fmt.Errorf("%w: its %s is gone, disabled or another", iam.ErrOver, what)
}

// userOf returns the user of a session, unless a change of the user has ended the session.
func (s *index) userOf(r *cached) (*iam.User, error) {
	if r.self != nil {
		if r.Registration == nil && (s.ClientCredential == nil || s.ClientCredential(r.Client) != r.credential || r.credential == "") {
			return nil, missing("client", s.synced())
		}
		return r.self, nil
	}
	u, err := s.Users.Lookup(r.User, r.UserUID)
	if u == nil {
		return nil, cmp.Or(err, missing("user", s.synced()))
	}
	if r.outdated(u) {
		return nil, fmt.Errorf("%w: the password was changed", iam.ErrOver)
	}
	if why := u.RefusalReason(); why != "" {
		return nil, fmt.Errorf("%w: %s", iam.ErrOver, why)
	}
	if !u.LinkedTo(r.Provider, r.subject) { // where users are behind, the link may only not be known yet
		return nil, cmp.Or(s.Users.Complete(), fmt.Errorf("%w: the identity is no longer the user's", iam.ErrOver))
	}
	return u, nil
}

var _ store.Sink = (*Store)(nil)

// put stores r unless a newer state is known, and returns the newest known state; nil if the session is over. The lock is held.
func (s *index) put(r *cached) *cached {
	if s.gone.Has(r.Name) {
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
		if r.bound() && s.gone.Has(r.Parent) {
			s.scheduleEnd(r.Name, reasonLoggedOut)
			return nil
		}
		return r
	}
	fed := r.until.IsZero()
	if r.older(old) && (!fed || !old.until.IsZero()) {
		return old // the feed lags behind what was written or read here
	}
	next := *r // older than what the feed has brought before, where a backup of etcd was restored
	next.seen = old.seen
	if next.generation > old.generation {
		next.seen = s.Now()
	}
	if old.until.IsZero() && !old.older(r) {
		next.until = time.Time{} // the feed has brought it
	}
	if next.UserUID == old.UserUID && next.sequence == old.sequence {
		s.byName[r.Name] = &next
		return &next
	}
	s.forget(r.Name) // the registration has a User by now
	s.insert(&next)
	return &next
}

// insert adds a new session to the index. The lock is held.
func (s *index) insert(r *cached) {
	s.byName[r.Name] = r
	list := s.byUser[r.UserUID]
	i, _ := slices.BinarySearchFunc(list, r.position(), position.compare)
	s.byUser[r.UserUID] = slices.Insert(list, i, r.position())
}

// drop removes a session, which can't come back, and ends those that were opened in it. The lock is held.
func (s *index) drop(name string) *cached {
	s.gone.Set(name, struct{}{})
	r := s.forget(name)
	if r == nil || r.Parent != "" || r.self != nil {
		return r
	}
	for _, p := range slices.Clone(s.byUser[r.UserUID]) {
		if child := s.byName[p.name]; child != nil && child.Parent == name && child.bound() {
			s.scheduleEnd(p.name, reasonLoggedOut)
		}
	}
	return r
}

// forget removes a session from the index. The lock is held.
func (s *index) forget(name string) *cached {
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

// addTombstone records the object of an ended session. The lock is held.
func (s *index) addTombstone(r *cached) {
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

// reusable returns the session that a client already has for itself, or nil.
func (s *index) reusable(l *Login, o holder) *cached {
	if l.User != nil || l.Registration != nil || l.Name != "" || !l.NoRefresh {
		return nil
	}
	life := s.Lifetime(l.Client)
	half := life.Longest() / 2 // half the life of a session that can't live any longer
	least := s.Now().Add(min(cmp.Or(life.MaxAge, half), half))
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, p := range slices.Backward(s.byUser[o.uid]) {
		r := s.byName[p.name]
		if r.phase == "" && r.credential == o.credential && r.current == "" && !r.Expires.Before(least) && slices.Equal(r.Scopes, l.Scopes) {
			return r
		}
	}
	return nil
}

func (s *index) isGone(name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.gone.Has(name)
}

// scheduleEnd refuses a session from now on, and has its object deleted. The lock is held.
func (s *index) scheduleEnd(name, reason string) {
	if r := s.drop(name); r != nil {
		s.pending[name] = deletion{record: r, reason: reason}
		s.wake()
	}
}

// userChanged ends the sessions that a change of their user ends. The users' feed calls it.
func (s *index) userChanged(old, next *iam.User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range slices.Clone(s.byUser[old.UID]) {
		name := p.name
		r := s.byName[name]
		switch {
		case next == nil || next.UID != old.UID || next.Deleting:
			s.scheduleEnd(name, "user deleted")
		case next.State == v1beta1.UserDisabled:
			s.scheduleEnd(name, "user disabled")
		case r != nil && r.outdated(next) && !r.outdated(old):
			// Only those of the old password: one of the new password may be here already, since sessions and users have different feeds.
			s.scheduleEnd(name, "password changed")
		}
	}
}

// deleteLater schedules the deletion of a session's object, which need not exist.
func (s *index) deleteLater(r *cached) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone.Set(r.Name, struct{}{})
	s.pending[r.Name] = deletion{record: r, reason: "not answered"}
}

// known returns a session in memory.
func (s *index) known(name string) (*cached, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	r := s.byName[name]
	return r, r != nil
}

// learn stores a session that was read or written here.
func (s *index) learn(o *v1alpha1.Session) *cached {
	r := newCached(o)
	r.until = s.Now().Add(unconfirmed)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(r)
}

// inGrace reports whether the last rotation is so recent that the former token may be presented again. Since replicas' clocks differ,
// it also takes into account when this replica learned of the rotation.
func (s *index) inGrace(r *cached, now time.Time) bool {
	age := now.Sub(r.rotated.Truncate(time.Second)) // stored in whole seconds
	if age <= s.Grace {
		return true
	}
	return !r.seen.IsZero() && now.Sub(r.seen) <= s.Grace && age <= s.Grace+s.Skew
}
