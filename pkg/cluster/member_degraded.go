package cluster

import (
	"context"
	"slices"
)

// ReasonDegraded is the reason of the condition Ready of a member that is linked, and does not serve all that it should.
const ReasonDegraded = "Degraded"

// SetDegradedWhile says what a member that is linked does not serve, "" for nothing, for who follows the member until ctx ends: later it
// says nothing, since it knows nothing of the links that the member has then.
func (m *Member) SetDegradedWhile(ctx context.Context, why string) {
	t := &m.state.sync
	t.mu.Lock()
	if ctx.Err() != nil { // under the lock: see setSynced
		t.mu.Unlock()
		return
	}
	why = clip(why)
	differs := t.degraded != why
	t.degraded = why
	t.mu.Unlock()
	if differs {
		m.state.members.syncChanged(m.UID)
	}
}

// Degraded returns what a member that is linked does not serve, "" for nothing. It is what any replica of this hub says that the member is
// linked to, so that all of them write the same condition.
func (m *Member) Degraded() string {
	var all []string
	if m.linkedHere() {
		t := &m.state.sync
		t.mu.Lock()
		all = append(all, t.degraded)
		t.mu.Unlock()
	}
	members := m.state.members
	members.mu.RLock()
	for _, e := range members.elsewhere {
		all = append(all, e.Members[m.UID].Degraded)
	}
	members.mu.RUnlock()
	if all = slices.DeleteFunc(all, func(why string) bool { return why == "" }); len(all) == 0 {
		return ""
	}
	return slices.Min(all)
}
