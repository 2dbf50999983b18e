package cluster

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"
)

// State is what one replica of this hub tells the others of a member that is linked to it.
type State struct {
	UID string `json:"uid"`
	// Synced and Pending are as Member.Synced says.
	Synced  bool      `json:"synced"`
	Pending []Pending `json:"pending,omitempty"`
	// Untold and UntoldSince are as Member.Untold says, and Degraded as Member.Degraded does.
	Untold      string    `json:"untold,omitempty"`
	UntoldSince time.Time `json:"untoldSince,omitzero"`
	Degraded    string    `json:"degraded,omitempty"`
	// Bound are the users whom bindings of the member's own name, Names the other names that these have, and Version is that of both, which
	// are left out for who has them.
	Bound   []string    `json:"bound,omitempty"`
	Names   *BoundNames `json:"names,omitempty"`
	Version uint64      `json:"version"`
}

// Elsewhere is what is linked to another replica of this hub.
type Elsewhere struct {
	// Send sends a request to the member with a UID by that replica.
	Send func(uid string, r *http.Request) (*http.Response, error)
	// Members are linked there, by the UID of their Cluster. Nobody changes them.
	Members map[string]State
}

// SetElsewhere sets what is linked to another replica; nil for nothing any more.
func (m *Members) SetElsewhere(replica string, e *Elsewhere) {
	var turned []*Member
	m.mu.Lock()
	before := m.elsewhere
	m.elsewhere = maps.Clone(before)
	if m.elsewhere == nil {
		m.elsewhere = map[string]*Elsewhere{}
	}
	if m.elsewhere[replica] = e; e == nil {
		delete(m.elsewhere, replica)
	}
	for uid, member := range m.byUID {
		if _, was := linkedIn(before, uid); was != isLinkedIn(m.elsewhere, uid) {
			turned = append(turned, member)
		}
	}
	m.mu.Unlock()
	if e != nil {
		m.keepBound(e)
	}
	for _, member := range turned {
		s := member.state
		s.mu.Lock()
		here := len(s.all) > 0
		if !here {
			s.since = m.Now()
		}
		s.mu.Unlock()
		if !here {
			m.changed(member.UID)
		}
	}
}

// linkedIn returns a replica that a member is linked to; one that knows that the member has all that it is to have comes first.
func linkedIn(all map[string]*Elsewhere, uid string) (out *Elsewhere, found bool) {
	for _, e := range all {
		if s, linked := e.Members[uid]; linked && (out == nil || s.Synced) {
			out = e
		}
	}
	return out, out != nil
}

func isLinkedIn(all map[string]*Elsewhere, uid string) bool {
	_, found := linkedIn(all, uid)
	return found
}

// other returns another replica that a member is linked to, and what it says of the member; nil for none.
func (m *Members) other(uid string) (*Elsewhere, State) {
	m.mu.RLock()
	all := m.elsewhere
	m.mu.RUnlock()
	if e, found := linkedIn(all, uid); found {
		return e, e.Members[uid]
	}
	return nil, State{}
}

// mostBoundSent and mostPendingSent bound the bytes of users and of what is pending that one replica tells another at once. Members write
// them: what they write must not be more than a replica reads, which would take the links of all members from it.
const mostBoundSent, mostPendingSent = 16 << 20, 16 << 20

// States waits until there is something newer than a version, or ctx ends, and returns what is linked to this replica. Of lists of bound
// users those are left out whose version is known, and those that are too much for one answer: then the version is 0, so that the rest is
// asked for at once.
func (m *Members) States(ctx context.Context, after uint64, known map[string]uint64) (version uint64, out []State) {
	for {
		version, changed := m.changes.now()
		if version != after || ctx.Err() != nil {
			out, whole := m.states(known)
			if !whole {
				version = 0
			}
			return version, out
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

func (m *Members) states(known map[string]uint64) (out []State, whole bool) {
	whole = true
	bound, pending := mostBoundSent, mostPendingSent
	for _, uid := range m.UIDs() {
		member := m.ByUID(uid)
		if member == nil || !member.linkedHere() {
			continue
		}
		t := &member.state.sync
		t.mu.Lock()
		s := State{UID: uid, Synced: t.synced, Pending: slices.Clone(t.pending), Untold: t.untold, UntoldSince: t.untoldSince,
			Degraded: t.degraded, Version: t.version}
		if v := known[uid]; v != t.version { // 0 is that of no list
			_, size := t.names.Size()
			if size += bytesOf(t.bound); size <= bound || bound == mostBoundSent { // there is one in each answer at least
				s.Bound, s.Names = t.bound, t.names // replaced, never changed
				bound -= size
			} else {
				s.Version, whole = v, false
			}
		}
		t.mu.Unlock()
		for i := range s.Pending {
			if pending -= len(s.Pending[i].Kind) + len(s.Pending[i].Name) + len(s.Pending[i].Reason); pending < 0 {
				s.Pending = s.Pending[:i]
				break
			}
		}
		out = append(out, s)
	}
	return out, whole
}

func bytesOf(all []string) (n int) {
	for _, s := range all {
		n += len(s)
	}
	return n
}

// linkedHere reports whether there is a link to this replica.
func (m *Member) linkedHere() bool {
	m.state.mu.Lock()
	defer m.state.mu.Unlock()
	return len(m.state.all) > 0
}

// byOther returns another replica that requests to the member go by, and what that says of it; nil where they go over a link to this one.
// They go by another one while there is no link to this replica, and while the member has been told everything there and not yet here:
// a replica that has just started may serve at once what the others serve.
func (m *Member) byOther() (*Elsewhere, State) {
	e, s := m.state.members.other(m.UID)
	if e == nil || !m.linkedHere() {
		return e, s
	}
	if synced, _ := m.SyncedHere(); synced || !s.Synced {
		return nil, State{}
	}
	return e, s
}

// Linked reports whether there is a link to a member, to this replica or another one, and since when that is so.
func (m *Member) Linked() (bool, time.Time) {
	m.state.mu.Lock()
	here, since := len(m.state.all) > 0, m.state.since
	m.state.mu.Unlock()
	if !here {
		e, _ := m.state.members.other(m.UID)
		here = e != nil
	}
	return here, since
}
