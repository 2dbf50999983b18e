package cluster

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// mostPending bounds what is remembered of what a member still has to get.
const mostPending = 1000

// Pending is an object that a member still has to get, or to lose, and why.
type Pending struct {
	// Kind is the plural.
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
	// Passing says that it may succeed when it is tried again. Members of older releases do not say it.
	Passing bool `json:"passing,omitempty"`
}

// syncState is what a member has been told, and what it has said of itself.
type syncState struct {
	mu sync.Mutex
	// synced says that everything was compared since the first link was opened: what was taken away here is taken away there.
	synced  bool
	pending []Pending
	bound   []string
	names   *BoundNames
	// version is that of bound and names.
	version uint64
	about   About
	// untold is why the member could not be told anything the last time, "" where it could, and untoldSince since when that is so.
	untold      string
	untoldSince time.Time
	// degraded is what the member does not serve, "" for nothing.
	degraded string
}

// mostText bounds the texts of what is pending, in bytes: a member writes them, which is not trusted.
const mostText = 512

// forget has a member that has been linked again take no requests until it has been told everything.
func (t *syncState) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.synced, t.pending, t.untold, t.degraded = false, nil, "", ""
}

// SetUntold says why a member that is linked could not be told what it is to have, "" where it could.
func (m *Member) SetUntold(why string) {
	t := &m.state.sync
	t.mu.Lock()
	differs := t.untold != clip(why)
	if t.untold == "" {
		t.untoldSince = m.state.members.Now()
	}
	t.untold = clip(why)
	t.mu.Unlock()
	if differs {
		m.state.members.syncChanged(m.UID)
	}
}

// Untold returns why a member that is linked can't be told what it is to have, and since when that is so, as the replica knows it that
// requests go by; "" where it can. Where replicas said different things, each would write its own condition again and again.
func (m *Member) Untold() (why string, since time.Time) {
	if e, s := m.byOther(); e != nil {
		return s.Untold, s.UntoldSince
	}
	t := &m.state.sync
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.untold, t.untoldSince
}

// SetSyncedWhile is SetSynced for who follows the member over its links until ctx ends: later it says nothing, since it knows nothing of
// the links that the member has then.
func (m *Member) SetSyncedWhile(ctx context.Context, yes bool, pending []Pending) {
	m.setSynced(ctx.Err, yes, pending)
}

// SetSynced says whether a member has all that it is to have but for what is pending.
func (m *Member) SetSynced(yes bool, pending []Pending) {
	m.setSynced(func() error { return nil }, yes, pending)
}

func (m *Member) setSynced(over func() error, yes bool, pending []Pending) {
	t := &m.state.sync
	t.mu.Lock()
	if over() != nil { // under the lock: ctx ends before the next link is opened, which takes it
		t.mu.Unlock()
		return
	}
	pending = AtMost(pending)
	differs := t.synced != yes || !slices.Equal(t.pending, pending)
	t.synced, t.pending = yes, pending
	t.mu.Unlock()
	if differs {
		m.state.members.syncChanged(m.UID)
	}
}

// Synced reports whether a member has all that it is to have, and what is pending, as the replica knows it that requests go by.
func (m *Member) Synced() (bool, []Pending) {
	if e, s := m.byOther(); e != nil {
		return s.Synced, slices.Clone(s.Pending)
	}
	return m.SyncedHere()
}

// SyncedHere is Synced as this replica knows it.
func (m *Member) SyncedHere() (bool, []Pending) {
	t := &m.state.sync
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.synced, slices.Clone(t.pending)
}

// Settle forgets what was pending of the objects that isSettled reports, and remembers what is pending now.
func (m *Member) Settle(isSettled func(Pending) bool, pending []Pending) {
	t := &m.state.sync
	t.mu.Lock()
	before := slices.Clone(t.pending)
	t.pending = AtMost(append(slices.DeleteFunc(t.pending, isSettled), pending...))
	differs := !slices.Equal(before, t.pending)
	t.mu.Unlock()
	if differs {
		m.state.members.syncChanged(m.UID)
	}
}

// AtMost bounds what is pending, of which a member has written a part.
func AtMost(all []Pending) []Pending {
	all = slices.Clone(all[:min(len(all), mostPending)])
	for i := range all {
		p := &all[i]
		p.Kind, p.Name, p.Reason = clip(p.Kind), clip(p.Name), clip(p.Reason)
	}
	return all
}

// clip bounds a text. What is left out is not kept in memory.
func clip(s string) string {
	if len(s) <= mostText {
		return s
	}
	return strings.Clone(strings.ToValidUTF8(s[:mostText], ""))
}
