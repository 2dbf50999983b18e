package index

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Bounds on the indexes for searches.
const (
	minSearched     = 4096            // objects of a kind that is worth an index
	searchIdle      = 5 * time.Minute // how long an unused index is kept
	searchBehind    = 256             // changes after which the writer updates an index
	minSearchBytes  = 16 << 20        // an index may have this size, or
	searchBytesPart = 10              // this fraction of the objects
	mostCandidates  = 8               // an index that leaves more than this fraction of the objects is not used
)

// textIndexes are the text indexes of a kind. They are built in the background when first asked for, updated from the
// history of the kind by the next search and by the kind's writer, and dropped when unused.
type textIndexes struct {
	names textIndex // names, aliases, and what the Schema names
	words textIndex // names, labels and annotations
}

func (c *textIndexes) begin(s *Schema, now clock.Clock) {
	c.names.begin(namesOf(s), now)
	c.words.begin(wordsOf(), now)
}

// published updates the indexes before the history loses the changes that they need.
func (c *textIndexes) published(s *Snapshot) {
	c.names.published(s)
	c.words.published(s)
}

func namesOf(s *Schema) texts {
	return texts{
		of: func(dst []string, r *Record) []string {
			dst = append(dst, r.Name)
			if r.Alias != "" {
				dst = append(dst, r.Alias)
			}
			for _, i := range s.Searched {
				dst = append(dst, r.Fields[i])
			}
			return dst
		},
		same: func(a, b *Record) bool {
			return a.Ref == b.Ref && a.Alias == b.Alias && equalFields(a, b, s.Searched)
		},
	}
}

func wordsOf() texts {
	return texts{
		of: func(dst []string, r *Record) []string {
			dst = append(dst, r.Name)
			pair := func(key, value string) bool {
				dst = append(dst, key+"="+value)
				return true
			}
			r.Labels.All(pair)
			r.Annotations.All(pair)
			return dst
		},
		same: func(a, b *Record) bool {
			return a.Ref == b.Ref && a.Labels == b.Labels && a.Annotations == b.Annotations
		},
	}
}

// textIndex is one index of a kind.
type textIndex struct {
	texts texts
	clock clock.Clock
	aside func(func()) // runs a function on another goroutine
	least int          // objects

	current  atomic.Pointer[trigrams]
	used     atomic.Int64 // seconds
	building atomic.Bool
	refused  atomic.Int64 // how many objects had an index that is too large, 0 where none was
}

func (f *textIndex) begin(t texts, c clock.Clock) {
	f.texts, f.clock, f.least = t, c, minSearched
	f.aside = func(build func()) { go build() }
}

// find appends to dst the ids of the objects of s that may contain text, and reports whether the index could be used.
func (f *textIndex) find(dst []uint32, s *Snapshot, text string) ([]uint32, bool) {
	if s.count < f.least || len(text) < gram {
		return dst, false
	}
	f.used.Store(f.clock.Now().Unix())
	t := f.current.Load()
	if t == nil || outgrown(t.count, s.count) {
		f.build(s)
	}
	if t == nil {
		return dst, false
	}
	if t.at.Load() < s.position && !t.advance(s) {
		f.current.CompareAndSwap(t, nil)
		f.build(s)
		return dst, false
	}
	return t.find(dst, s, text, s.count/mostCandidates)
}

// outgrown reports whether an index was built for a kind of another size.
func outgrown(then, now int) bool { return now > 2*then || now < then/2 }

// build builds an index of s, unless one is being built or would be too large.
func (f *textIndex) build(s *Snapshot) {
	if n := f.refused.Load(); n > 0 && !outgrown(int(n), s.count) || !f.building.CompareAndSwap(false, true) {
		return
	}
	f.aside(func() {
		defer f.building.Store(false)
		t := newTrigrams(s, f.texts, int(max(minSearchBytes, s.bytes/searchBytesPart)/4))
		if t == nil {
			f.refused.Store(int64(s.count))
			return
		}
		f.refused.Store(0)
		f.current.Store(t)
	})
}

// published drops an unused index, and updates one that lags far.
func (f *textIndex) published(s *Snapshot) {
	t := f.current.Load()
	if t == nil {
		return
	}
	if s.count < f.least/2 || f.clock.Now().Unix()-f.used.Load() > int64(searchIdle/time.Second) {
		f.current.CompareAndSwap(t, nil)
		return
	}
	if s.position-t.at.Load() > searchBehind && !t.advance(s) {
		f.current.CompareAndSwap(t, nil)
	}
}

// scratch is memory for the ids that one search finds.
var scratch = sync.Pool{New: func() any { return new([]uint32) }}

// Containing calls f with every object whose name, alias or searched text (Schema.Searched) contains text in any case, and
// with some that don't: the caller checks, and f returns false to end the search. Each object is given once, in no order. It
// returns false, without a call of f, where no index helps: the text is shorter than three bytes or no UTF-8, the kind is
// small, the matches are many, or the index is being built. The caller then tests all objects.
func (s *Snapshot) Containing(text string, f func(*Ref) bool) bool {
	return s.searchWith(&s.searches.names, text, f)
}

// Mentioning is Containing for a text in the name, or in a label or an annotation, each written as key=value.
func (s *Snapshot) Mentioning(text string, f func(*Ref) bool) bool {
	return s.searchWith(&s.searches.words, text, f)
}

func (s *Snapshot) searchWith(by *textIndex, text string, f func(*Ref) bool) bool {
	buf := scratch.Get().(*[]uint32)
	defer scratch.Put(buf)
	ids, ok := by.find((*buf)[:0], s, text)
	*buf = ids
	if !ok {
		return false
	}
	for _, id := range ids {
		if r := s.at(id); r != nil && !f(r.Ref) {
			break
		}
	}
	return true
}

// at returns the record of an id, or nil where the snapshot has none.
func (s *Snapshot) at(id uint32) *Record {
	if c := int(id / chunkSize); c < len(s.chunks) {
		return s.chunks[c].records[id%chunkSize]
	}
	return nil
}
