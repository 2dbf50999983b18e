package index

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// gram is how many successive bytes of a text are indexed together.
const gram = 3

// trigrams is an index of the texts of a kind's objects: for each three successive bytes, in lower case, the ids of the
// objects that have them. Few objects have all trigrams of a text and do not contain it. Trigrams share buckets, about four
// objects to a bucket, which adds a few more.
//
// The index is of one position in the history of its kind. Changes move it forward, and it answers for snapshots of other
// positions with the help of the changes in between.
//
// What it buys: a search of 100 000 names takes 12 us by the index and 12.6 ms by looking at each name (BenchmarkSearch,
// BenchmarkSearchWithoutIndex), for 33 bytes an object. The plain twin is the walk over all objects, which
// TestSearchesFollowAModel compares it with.
type trigrams struct {
	texts texts
	at    atomic.Uint64 // written with mu

	mu      sync.RWMutex
	invalid bool // changes were missed
	count   int  // of objects, when the index was made
	space   uint32
	shift   uint8
	buckets []posting
	words   int // in the buckets
	most    int // words, when the index was made
	old     []uint32
	new     []uint32
}

// posting is the objects of one bucket: their ids in order, or a bit for each id there is, whichever is shorter.
type posting struct {
	ids  []uint32
	n    uint32
	bits bool
}

// texts are what is searched of a record. They are appended to dst; same reports whether those of a and b are certainly
// equal.
type texts struct {
	of   func(dst []string, r *Record) []string
	same func(a, b *Record) bool
}

// newTrigrams returns an index of the objects of s, or nil where it would have more than maxWords.
func newTrigrams(s *Snapshot, of texts, maxWords int) *trigrams {
	size := min(max(bits.Len(uint(s.count/4)), 10), 16)
	t := &trigrams{
		texts: of, most: maxWords, count: s.count, space: uint32(len(s.chunks) * chunkSize), //nolint:gosec // ids have 32 bits
		shift: uint8(32 - size), buckets: make([]posting, 1<<size), //nolint:gosec // at most 16
	}
	t.at.Store(s.position)
	last := make([]uint32, len(t.buckets)) // 1 more than the last id that was counted
	t.each(s, last, func(b *posting, _ uint32) { b.n++ })
	for i := range t.buckets {
		t.words += min(int(t.buckets[i].n), t.dense())
	}
	if t.words > maxWords {
		return nil
	}
	all := make([]uint32, t.words)
	for i := range t.buckets {
		b := &t.buckets[i]
		n := min(int(b.n), t.dense())
		b.bits = n < int(b.n)
		b.ids, all = all[:n:n], all[n:]
		if !b.bits {
			b.ids = b.ids[:0]
		}
	}
	clear(last)
	t.each(s, last, func(b *posting, id uint32) {
		if b.bits {
			b.ids[id/32] |= 1 << (id % 32)
		} else {
			b.ids = append(b.ids, id)
		}
	})
	return t
}

// each calls f with each object of s and each of its buckets once, in the order of ids.
func (t *trigrams) each(s *Snapshot, last []uint32, f func(b *posting, id uint32)) {
	var words []string
	var at []uint32
	for _, c := range s.chunks {
		for _, r := range c.records {
			if r == nil {
				continue
			}
			words, at = t.texts.of(words[:0], r), at[:0]
			for _, w := range words {
				at = t.grams(at, w)
			}
			for _, b := range at {
				if last[b] != r.id+1 {
					last[b] = r.id + 1
					f(&t.buckets[b], r.id)
				}
			}
		}
	}
}

// dense returns how many words a bit for each id takes.
func (t *trigrams) dense() int { return int(t.space+31) / 32 }

// grams appends the buckets of a text.
func (t *trigrams) grams(dst []uint32, text string) []uint32 {
	text = strings.ToLower(text)
	if len(text) < gram {
		return dst
	}
	x := uint32(text[0])<<8 | uint32(text[1])
	for i := gram - 1; i < len(text); i++ {
		x = (x<<8 | uint32(text[i])) & (1<<24 - 1)
		dst = append(dst, x*0x9E3779B1>>t.shift)
	}
	return dst
}

// advance updates the index to a snapshot. It reports whether the index is of use.
func (t *trigrams) advance(s *Snapshot) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if from := t.at.Load(); from < s.position && !t.invalid {
		t.invalid = !s.Changes(from, t.change) || t.words > 2*t.most
		t.at.Store(s.position)
	}
	return !t.invalid
}

// change applies one change.
func (t *trigrams) change(c *Change) bool {
	if !t.moves(c) {
		return true
	}
	t.old, t.new = t.of(t.old, c.Old), t.of(t.new, c.New)
	// Both are sorted: what only one of them has is removed or added.
	for i, j := 0, 0; i < len(t.old) || j < len(t.new); {
		switch {
		case j == len(t.new) || i < len(t.old) && t.old[i] < t.new[j]:
			t.remove(&t.buckets[t.old[i]], c.Old.id)
			i++
		case i == len(t.old) || t.new[j] < t.old[i]:
			t.add(&t.buckets[t.new[j]], c.New.id)
			j++
		default:
			i++
			j++
		}
	}
	return true
}

// moves reports whether a change is one of the texts.
func (t *trigrams) moves(c *Change) bool {
	return c.Old == nil || c.New == nil || !t.texts.same(c.Old, c.New)
}

// of returns the buckets of a record, sorted, in the memory of dst.
func (t *trigrams) of(dst []uint32, r *Record) []uint32 {
	dst = dst[:0]
	if r == nil {
		return dst
	}
	for _, w := range t.texts.of(nil, r) {
		dst = t.grams(dst, w)
	}
	slices.Sort(dst)
	return slices.Compact(dst)
}

func (t *trigrams) add(b *posting, id uint32) {
	t.space = max(t.space, id+1)
	t.words -= len(b.ids)
	defer func() { t.words += len(b.ids) }()
	if !b.bits {
		i, ok := slices.BinarySearch(b.ids, id)
		if ok {
			return
		}
		if b.n++; len(b.ids) < t.dense() {
			b.ids = slices.Insert(b.ids, i, id)
			return
		}
		ids := b.ids
		b.ids, b.bits = make([]uint32, t.dense()), true
		for _, other := range ids {
			b.ids[other/32] |= 1 << (other % 32)
		}
		b.ids[id/32] |= 1 << (id % 32)
		return
	}
	if at := int(id / 32); at >= len(b.ids) {
		b.ids = append(b.ids, make([]uint32, t.dense()-len(b.ids))...)
	}
	if bit := uint32(1) << (id % 32); b.ids[id/32]&bit == 0 {
		b.ids[id/32] |= bit
		b.n++
	}
}

func (t *trigrams) remove(b *posting, id uint32) {
	if !b.has(id) {
		return
	}
	b.n--
	if b.bits {
		b.ids[id/32] &^= 1 << (id % 32)
		return
	}
	i, _ := slices.BinarySearch(b.ids, id)
	b.ids = slices.Delete(b.ids, i, i+1)
	t.words--
}

func (b *posting) has(id uint32) bool {
	if b.bits {
		return int(id/32) < len(b.ids) && b.ids[id/32]&(1<<(id%32)) != 0
	}
	_, ok := slices.BinarySearch(b.ids, id)
	return ok
}

// maxLists is how many buckets a search reads: those with the fewest objects decide nearly everything.
const maxLists = 6

// find appends to dst the ids of the objects of a snapshot that may contain text. It returns false where the index can't
// say, or where there are more than most.
func (t *trigrams) find(dst []uint32, s *Snapshot, text string, most int) ([]uint32, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	lists := t.rarest(text)
	if t.invalid || len(lists) == 0 {
		return dst, false
	}
	dst, ok := intersect(dst, lists, most)
	if at := t.at.Load(); ok && at > s.position {
		return t.back(dst, s, at)
	}
	return dst, ok
}

// rarest returns the buckets of a text with the fewest objects, those first.
func (t *trigrams) rarest(text string) []*posting {
	if len(text) < gram || !utf8.ValidString(text) { // the lower case of what is invalid is something else
		return nil
	}
	var some [64]uint32
	all := t.grams(some[:0], text)
	slices.SortFunc(all, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(t.buckets[a].n, t.buckets[b].n), cmp.Compare(a, b))
	})
	all = slices.Compact(all)
	out := make([]*posting, min(len(all), maxLists))
	for i := range out {
		out[i] = &t.buckets[all[i]]
	}
	return out
}

// intersect appends the ids that are in all lists, of which the first is the shortest.
func intersect(dst []uint32, lists []*posting, most int) ([]uint32, bool) {
	first, more := lists[0], lists[1:]
	var next [maxLists]int // the next index in each list
	take := func(id uint32) bool {
		for i, b := range more {
			if b.bits {
				if !b.has(id) {
					return true
				}
				continue
			}
			at, ok := slices.BinarySearch(b.ids[next[i]:], id)
			next[i] += at
			if !ok {
				return true
			}
		}
		dst = append(dst, id)
		return len(dst) <= most
	}
	if !first.bits {
		for _, id := range first.ids {
			if !take(id) {
				return dst, false
			}
		}
		return dst, true
	}
	for w := range first.ids { // the others are bits as well, or longer
		word := first.ids[w]
		for _, b := range more {
			if b.bits && w < len(b.ids) {
				word &= b.ids[w]
			} else if b.bits {
				word = 0
			}
		}
		for ; word != 0; word &= word - 1 {
			if !take(uint32(w*32 + bits.TrailingZeros32(word))) { //nolint:gosec // ids have 32 bits
				return dst, false
			}
		}
	}
	return dst, true
}

// back adds what an older snapshot has and the index, which is at a later position, no longer has.
func (t *trigrams) back(dst []uint32, s *Snapshot, at uint64) ([]uint32, bool) {
	var some [64]Change
	for from := s.position; from < at; {
		n, ok := s.history.from(from, at, some[:])
		if !ok {
			return dst, false
		}
		for i := range some[:n] {
			if c := &some[i]; c.Old != nil && t.moves(c) {
				dst = append(dst, c.Old.id)
			}
		}
		from += uint64(n) //nolint:gosec // at most len(some)
	}
	slices.Sort(dst)
	return slices.Compact(dst), true
}
