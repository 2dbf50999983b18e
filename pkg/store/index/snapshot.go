package index

import "sync"

// Snapshot is all objects of one kind at one position. It is immutable and needs no lock.
type Snapshot struct {
	generation uint64
	version    string
	count      int
	bytes      int64
	created    *tree
	names      *tree
	times      []*tree // for each of Schema.Ordered
	chunks     []*chunk
	position   uint64
	history    *history     // of the kind, beyond this snapshot too
	searches   *textIndexes // of the kind, at any position

	mu     sync.RWMutex
	ranges map[rangeKey]Range
}

// rangeKey is a term in the order by creation, by name, or by the ordered field of that number.
type rangeKey struct {
	term  Term
	order int
}

const (
	orderCreated = -1
	orderName    = -2
)

// maxRanges bounds the ranges that a snapshot caches.
const maxRanges = 1024

// Generation returns a number that grows with every snapshot of the kind. Two snapshots of one generation are the same.
func (s *Snapshot) Generation() uint64 { return s.generation }

// ResourceVersion returns the one up to which the snapshot has seen changes.
func (s *Snapshot) ResourceVersion() string { return s.version }

// Len returns how many objects there are.
func (s *Snapshot) Len() int { return s.count }

// Bytes returns the length of all objects' JSON.
func (s *Snapshot) Bytes() int64 { return s.bytes }

// Record returns the object of ref, which is of this snapshot.
func (s *Snapshot) Record(ref *Ref) *Record {
	return s.chunks[ref.id/chunkSize].records[ref.id%chunkSize]
}

// Get returns one object by its namespace, empty for an object of the cluster, and name.
func (s *Snapshot) Get(namespace, name string) (*Record, bool) {
	e, ok := s.names.Get(entry{scope(namespace), &Ref{Namespace: namespace, Name: name}})
	if !ok {
		return nil, false
	}
	return s.Record(e.ref), true
}

// Named calls f with the objects of that name: those of one namespace, or of all where it is empty.
func (s *Snapshot) Named(namespace, name string, f func(*Ref)) {
	if namespace != "" {
		if r, ok := s.Get(namespace, name); ok {
			f(r.Ref)
		}
		return
	}
	s.names.Ascend(entry{All(), &Ref{Name: name}}, func(e entry) bool {
		if e.term != All() || e.ref.Name != name {
			return false
		}
		f(e.ref)
		return true
	})
}

// scope returns the term by whose range an object is found by name.
func scope(namespace string) Term {
	if namespace == "" {
		return All()
	}
	return InNamespace(namespace)
}

// Any reports whether a term holds for any object.
func (s *Snapshot) Any(t Term) bool {
	found := false
	s.created.Ascend(entry{t, first}, func(e entry) bool {
		found = e.term == t
		return false
	})
	return found
}

// ByCreated returns the objects of a term in the order of CompareCreated.
func (s *Snapshot) ByCreated(t Term) Range { return s.find(rangeKey{t, orderCreated}) }

// ByName returns the objects of a term in the order of CompareName. Only All and InNamespace have this order; for any other
// term the range is empty.
func (s *Snapshot) ByName(t Term) Range { return s.find(rangeKey{t, orderName}) }

// ByTime returns the objects of a term, which is All or InNamespace, in the order of the i-th of the fields that
// Schema.Ordered names, then of CompareKey. Created of its refs is that time; Record accepts them like any others.
func (s *Snapshot) ByTime(i int, t Term) Range { return s.find(rangeKey{t, i}) }

func (s *Snapshot) find(k rangeKey) Range {
	s.mu.RLock()
	r, ok := s.ranges[k]
	s.mu.RUnlock()
	if ok {
		return r
	}
	t, less := s.created, lessCreated
	switch {
	case k.order == orderName:
		t, less = s.names, lessName
	case k.order >= 0:
		t = s.times[k.order]
	}
	r = Range{tree: t, from: rank(t, entry{k.term, first}, less)}
	if r.n = rank(t, entry{k.term, last}, less) - r.from; r.n == 0 {
		return r // its term is any text of a caller's, of any length
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ranges) < maxRanges {
		if s.ranges == nil {
			s.ranges = map[rangeKey]Range{}
		}
		s.ranges[k] = r
	}
	return r
}
