package cluster

import (
	"slices"
	"sync"
)

// mostPending bounds what is remembered of what a member still has to get.
const mostPending = 1000

// Pending is an object that a member still has to get, or to lose, and why.
type Pending struct {
	// Kind is the plural.
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// told is what a member has been told, and what it told.
type told struct {
	mu sync.Mutex
	// synced says that everything was compared since the first link was opened: what was taken away here is taken away there.
	synced  bool
	pending []Pending
	bound   []string
}

// SetSynced says whether a member has all that it is to have but for what is pending.
func (m *Member) SetSynced(yes bool, pending []Pending) {
	t := &m.state.told
	t.mu.Lock()
	defer t.mu.Unlock()
	t.synced, t.pending = yes, atMost(pending)
}

// Synced reports whether a member has all that it is to have, and what is pending.
func (m *Member) Synced() (bool, []Pending) {
	t := &m.state.told
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.synced, slices.Clone(t.pending)
}

// Settle forgets what was pending of the objects that isSettled reports, and remembers what is pending now.
func (m *Member) Settle(isSettled func(Pending) bool, pending []Pending) {
	t := &m.state.told
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending = atMost(append(slices.DeleteFunc(t.pending, isSettled), pending...))
}

func atMost(all []Pending) []Pending { return all[:min(len(all), mostPending)] }

// SetBound says which users bindings of the member's own name.
func (m *Member) SetBound(users []string) {
	sorted := slices.Clone(users)
	slices.Sort(sorted)
	t := &m.state.told
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bound = sorted
}

// Binds reports whether a binding of the member's own names a user.
func (m *Member) Binds(user string) bool {
	t := &m.state.told
	t.mu.Lock()
	defer t.mu.Unlock()
	_, found := slices.BinarySearch(t.bound, user)
	return found
}
