// Package ring has the newest audit events of one replica in memory, and answers queries on them. It is no archive.
package ring

import (
	"sync"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kapis.dev/ks-apiserver/pkg/audit"
)

// Ring has the newest events, in the order in which they were recorded, up to a number of bytes.
type Ring struct {
	max int

	mu     sync.Mutex
	events []sized // the oldest first
	bytes  int
	since  time.Time
}

type sized struct {
	*audit.Event
	size int
}

// New returns a ring of so many bytes, that has every event since now.
func New(maxBytes int, now time.Time) *Ring { return &Ring{max: maxBytes, since: now} }

// overhead is what an event takes in the list of events, which may have twice the room that it needs.
const overhead = 2 * 16

// Record adds a copy of e without bodies. Events that only say that a request was received are left out: another one follows.
func (r *Ring) Record(e *audit.Event) {
	if e.Stage == auditv1.StageRequestReceived {
		return
	}
	c, size := e.Compact()
	size += overhead
	if size > r.max {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := 0
	for r.bytes+size > r.max {
		r.bytes -= r.events[gone].size
		r.since = r.events[gone].At
		r.events[gone] = sized{}
		gone++
	}
	r.events = append(r.events[gone:], sized{c, size})
	r.bytes += size
}

// Events returns the events, the oldest first, and since when the ring has every one. The events must not be changed.
func (r *Ring) Events() (all []*audit.Event, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all = make([]*audit.Event, len(r.events))
	for n, e := range r.events {
		all[n] = e.Event
	}
	return all, r.since
}
