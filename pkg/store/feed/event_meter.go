package feed

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/watch"
)

// Events counts what was read of one kind since its cache was started.
type Events struct {
	// Listed are the items of lists; the objects that a watch begins with are Added.
	Listed, Added, Modified, Deleted, Bookmarks, Errors uint64
}

// Plus returns the sum of both.
func (e Events) Plus(o Events) Events {
	return Events{
		Listed: e.Listed + o.Listed, Added: e.Added + o.Added, Modified: e.Modified + o.Modified, Deleted: e.Deleted + o.Deleted,
		Bookmarks: e.Bookmarks + o.Bookmarks, Errors: e.Errors + o.Errors,
	}
}

// Meter counts what is read of one kind.
type Meter struct {
	Bytes   atomic.Int64  // of answers, and 1 for each answer
	Opened  atomic.Uint64 // watches
	Lists   atomic.Uint64 // that are complete
	listed  atomic.Uint64 // the events from here on
	added   atomic.Uint64
	changed atomic.Uint64
	deleted atomic.Uint64
	marks   atomic.Uint64
	errors  atomic.Uint64
}

func (m *Meter) count(t watch.EventType) {
	switch t {
	case watch.Added:
		m.added.Add(1)
	case watch.Modified:
		m.changed.Add(1)
	case watch.Deleted:
		m.deleted.Add(1)
	case watch.Bookmark:
		m.marks.Add(1)
	case watch.Error:
		m.errors.Add(1)
	}
}

// Events returns the counts.
func (m *Meter) Events() Events {
	return Events{
		Listed: m.listed.Load(), Added: m.added.Load(), Modified: m.changed.Load(), Deleted: m.deleted.Load(),
		Bookmarks: m.marks.Load(), Errors: m.errors.Load(),
	}
}
