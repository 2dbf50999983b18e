package store

import (
	"sort"
	"strconv"
	"sync"
)

// Bounds on the history of a kind: how many changes it has at most, and how many bytes of objects it
// may keep that nothing else does. The latter grows with the kind, up to a tenth of it.
const (
	maxChanges       = 8192
	minHistoryBytes  = 8 << 20
	historyBytesPart = 10
)

// Change is one step in the history of a kind.
type Change struct {
	// Old is what the object was, nil where it is new; New is what it is, nil where it is gone.
	Old, New *Record
	// Version is the resource version at which the change was seen: that of the event, or of the list
	// that showed it.
	Version string

	number uint64 // Version, or 0 where it is no number; never less than that of the change before
}

// history keeps the last changes of a kind, in their order. The position of a change is how many there
// were before it.
type history struct {
	mu    sync.RWMutex
	ring  []Change // the change at position p is at p % maxChanges
	first uint64   // position of the oldest that is kept
	next  uint64   // position of the next
	since uint64   // the version up to which changes are not kept
	last  uint64   // the number of the last change
	bytes int64    // of what only the history keeps
}

// begin forgets everything: the kind is known at version, and its changes are kept from here on.
func (h *history) begin(version string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring, h.first, h.bytes = nil, h.next, 0
	h.since, h.last = number(version), max(h.last, number(version))
}

// add appends a change. total is how many bytes the kind has.
func (h *history) add(before, after *Record, version string, total int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = max(h.last, number(version))
	c := Change{Old: before, New: after, Version: version, number: h.last}
	if h.next-h.first == maxChanges {
		h.drop()
	}
	if at := h.next % maxChanges; at == uint64(len(h.ring)) {
		h.ring = append(h.ring, c)
	} else {
		h.ring[at] = c
	}
	h.next++
	h.bytes += c.kept()
	for limit := max(minHistoryBytes, total/historyBytesPart); h.bytes > limit && h.first < h.next; {
		h.drop()
	}
}

// drop forgets the oldest change.
func (h *history) drop() {
	c := &h.ring[h.first%maxChanges]
	h.bytes -= c.kept()
	h.since = c.number
	*c = Change{}
	h.first++
}

// kept is how many bytes are kept for the change alone.
func (c *Change) kept() int64 {
	if c.Old == nil {
		return 0
	}
	return int64(len(c.Old.JSON))
}

// from copies changes to dst, beginning with the one at position at and ending before end. It returns
// how many; ok is false where some are not kept any more.
func (h *history) from(at, end uint64, dst []Change) (n int, ok bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if at < h.first {
		return 0, false
	}
	for ; at < end && n < len(dst); n++ {
		dst[n] = h.ring[at%maxChanges]
		at++
	}
	return n, true
}

// after returns the position behind the last change whose number is at most version, among those before
// end; ok is false where that can't be told any more.
func (h *history) after(version, end uint64) (at uint64, ok bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if version < h.since || version == 0 {
		return 0, false
	}
	n := sort.Search(int(end-min(end, h.first)), func(i int) bool { //nolint:gosec // at most maxChanges
		return h.ring[(h.first+uint64(i))%maxChanges].number > version //nolint:gosec // as above
	})
	return h.first + uint64(n), true //nolint:gosec // as above
}

// number returns a resource version as the number that it is (Kubernetes orders them so), 0 where it is none.
func number(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Position is how many changes of the kind the snapshot has seen. Two snapshots of one position have the
// same objects, also where their generations differ.
func (s *Snapshot) Position() uint64 { return s.position }

// Changes calls f with the changes from a position up to this snapshot, in their order, until f returns
// false. It returns false, and may have called f, where they are not all kept any more.
func (s *Snapshot) Changes(from uint64, f func(*Change) bool) bool {
	var some [64]Change
	for from < s.position {
		n, ok := s.history.from(from, s.position, some[:])
		if !ok {
			return false
		}
		for i := range some[:n] {
			if !f(&some[i]) {
				return true
			}
		}
		from += uint64(n) //nolint:gosec // at most len(some)
	}
	return true
}

// After returns the position from which on the changes are newer than a resource version; ok is false
// where that can't be told any more. A version newer than the snapshot has the snapshot's position.
func (s *Snapshot) After(version string) (position uint64, ok bool) {
	n := number(version)
	if version != "" && version == s.version || n > 0 && n >= number(s.version) {
		return s.position, true
	}
	return s.history.after(n, s.position)
}

// Reaches tells whether the snapshot is at least as new as a resource version.
func (s *Snapshot) Reaches(version string) bool {
	return version == s.version || number(version) > 0 && number(version) <= number(s.version)
}

// NewerThan tells whether the change came after a resource version.
func (c *Change) NewerThan(version string) bool { return c.number > number(version) }
