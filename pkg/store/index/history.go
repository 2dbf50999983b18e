package index

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"sync"
)

// Bounds on the history of a kind: how many changes it has at most, and how many bytes of objects it may keep alive alone.
// The latter grows with the kind, up to a tenth of it.
const (
	maxChanges       = 8192
	minHistoryBytes  = 8 << 20
	historyBytesPart = 10
)

// Change is one step in the history of a kind.
type Change struct {
	// Old is the object before, nil where it is new; New is the object after, nil where it is gone. An object that is
	// created again under its old name is two changes.
	Old, New *Record
	// Version is a resource version up to which a client has seen everything, once it has seen this and all other changes of the version:
	// that of the event. Of a change that a list showed, it is at most that of the list.
	Version string
	// Complete reports whether that is so once it has seen this change, whatever follows.
	Complete bool

	number uint64 // the version of the event or the list, 0 where it is no number
}

// history has the last changes of a kind, in their order. A position is a number that grows by one with every change. No two
// caches of a store share one, so a position in a cache that is gone is refused.
type history struct {
	mu    sync.RWMutex
	ring  []Change // the change at position p is at (p - base) % maxChanges
	base  uint64   // position of the first change ever
	first uint64   // position of the oldest change
	next  uint64   // position of the next
	floor uint64   // from this position on, the changes are in the order of their versions
	since uint64   // the version after which the change at floor, and all later ones, came
	last  uint64   // the version of the last change
	lost  uint64   // the highest version that was known when the versions went back, as after the restore of a backup; 0 if they never did
	gaps  []gap    // the last ones, in their order
	bytes int64    // of what only the history keeps
	spare int64    // how many bytes it may always keep
}

// gap is where a list was read anew: objects that came and went between its two versions were not seen.
type gap struct {
	from, to uint64
	end      uint64 // the position after the changes that the list showed
}

// maxGaps bounds the gaps of a history.
const maxGaps = 16

// skip records that the last changes are those that a list of version to showed after version from was known.
func (h *history) skip(from, to uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gaps = append(h.gaps, gap{from, to, h.next})
	if len(h.gaps) <= maxGaps {
		return
	}
	if oldest := h.gaps[0]; oldest.end >= h.floor {
		h.floor, h.since = oldest.end, max(h.since, oldest.to)
	}
	h.gaps = slices.Delete(h.gaps, 0, 1)
}

// begin gives the first change its position.
func (h *history) begin(position uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.base, h.first, h.next, h.floor = position, position, position, position
}

// know records that the history is complete from a version on.
func (h *history) know(version string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since, h.last = number(version), number(version)
}

// replaced records that a list of version next was read where version was known.
func (h *history) replaced(version, next string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := number(version); number(next) < known {
		h.lost = max(h.lost, known)
	}
}

// isLost reports whether a version newer than all others is one that was known before the versions went back.
func (h *history) isLost(version uint64) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return version <= h.lost
}

// add appends a change. total is how many bytes the kind has.
func (h *history) add(c Change, total int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next-h.first == maxChanges {
		h.drop()
	}
	if at := h.at(h.next); at == uint64(len(h.ring)) {
		h.ring = append(h.ring, c)
	} else {
		h.ring[at] = c
	}
	h.next++
	if c.number < h.last || c.number == 0 {
		// The cluster was restored, or its versions are no numbers: versions say nothing about older changes.
		h.floor, h.since, h.gaps = h.next, c.number, nil
		if c.number == 0 {
			h.since = math.MaxUint64
		}
	}
	h.last = c.number
	h.bytes += c.kept()
	for limit := max(h.spare, total/historyBytesPart); h.bytes > limit && h.first < h.next; {
		h.drop()
	}
}

// at returns the index of a position in the ring.
func (h *history) at(position uint64) uint64 { return (position - h.base) % maxChanges }

// drop removes the oldest change.
func (h *history) drop() {
	c := &h.ring[h.at(h.first)]
	h.bytes -= c.kept()
	h.first++
	if h.first > h.floor {
		h.floor, h.since = h.first, c.number
	}
	*c = Change{}
}

// kept returns how many bytes are kept alive by the change alone.
func (c *Change) kept() int64 {
	if c.Old == nil {
		return 0
	}
	return int64(c.Old.JSON.Len())
}

// from copies changes to dst, from the position at up to the position end. It returns how many; ok is false where some are
// no longer in the history, or at is no position of it.
func (h *history) from(at, end uint64, dst []Change) (n int, ok bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if at < h.first || at > end {
		return 0, false
	}
	for ; at < end && n < len(dst); n++ {
		dst[n] = h.ring[h.at(at)]
		at++
	}
	return n, true
}

// after returns the position after the last change whose version is at most version, among those before end; ok is false
// where that is no longer known: a client that has seen a part of a gap may have objects whose deletion was not seen here.
func (h *history) after(version, end uint64) (at uint64, ok bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if version == 0 || version < h.since || end < h.floor {
		return 0, false
	}
	for _, g := range h.gaps {
		if g.from < version && version < g.to {
			return 0, false
		}
	}
	n := sort.Search(int(end-h.floor), func(i int) bool { //nolint:gosec // at most maxChanges
		return h.ring[h.at(h.floor+uint64(i))].number > version //nolint:gosec // as above
	})
	return h.floor + uint64(n), true //nolint:gosec // as above
}

// size returns how many bytes are kept alive by the history alone.
func (h *history) size() int64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.bytes
}

// number returns a resource version as the number that it is (Kubernetes orders them so), or 0.
func number(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Position returns how many changes the snapshot has seen, counted from some number. Two snapshots of one position have the
// same objects, even if their generations differ. The positions of a kind that was dropped and is watched again are all
// greater than those before.
func (s *Snapshot) Position() uint64 { return s.position }

// Changes calls f with the changes from a position up to this snapshot, in their order, until f returns false. It returns
// false, and may have called f, where they are no longer all in the history, or the position is not one of this snapshot's
// past.
func (s *Snapshot) Changes(from uint64, f func(*Change) bool) bool {
	var some [64]Change
	for from != s.position {
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

// After returns the position from which on the changes are newer than a resource version; ok is false where that is no
// longer known. A version newer than the snapshot has the snapshot's position, unless it was seen here and is newer because etcd
// was restored: a client that has it has seen what never was.
func (s *Snapshot) After(version string) (position uint64, ok bool) {
	n, now := number(version), number(s.version)
	if version != "" && version == s.version {
		return s.position, true
	}
	if now > 0 && n >= now {
		return s.position, !s.history.isLost(n)
	}
	return s.history.after(n, s.position)
}

// Reaches reports whether the snapshot is at least as new as a resource version. It is so for "" and version 0.
func (s *Snapshot) Reaches(version string) bool {
	if version == "" || version == "0" || version == s.version {
		return true
	}
	n := number(version)
	return n > 0 && n <= number(s.version)
}
