package index

import "math/bits"

// Set is a set of objects of one snapshot. It takes a bit for each of the snapshot's objects.
type Set struct{ words []uint64 }

// Set returns the objects for which any of the terms holds. Its cost is proportional to the length of their ranges.
func (s *Snapshot) Set(terms ...Term) Set {
	x := s.empty()
	for _, t := range terms {
		x.add(s.ByCreated(t))
	}
	return x
}

// SetOfLabel returns the objects that have a label of the key, with any value.
func (s *Snapshot) SetOfLabel(key string) Set {
	x := s.empty()
	x.add(s.labelled(key))
	return x
}

// CountLabel returns how many objects have a label of the key.
func (s *Snapshot) CountLabel(key string) int { return s.labelled(key).Len() }

// labelled is the range of all terms of a label's key, which are adjacent: no key has a byte like those after it.
func (s *Snapshot) labelled(key string) Range {
	r := Range{tree: s.created, from: rank(s.created, entry{term(labelled(key) + "="), first}, lessCreated)}
	r.n = rank(s.created, entry{term(labelled(key) + string(rune('='+1))), first}, lessCreated) - r.from
	return r
}

func (s *Snapshot) empty() Set { return Set{make([]uint64, len(s.chunks)*chunkSize/64)} }

func (x Set) add(r Range) {
	r.Walk(0, false, func(ref *Ref) bool {
		x.words[ref.id/64] |= 1 << (ref.id % 64)
		return true
	})
}

// Has reports whether the set has an object of its snapshot.
func (x Set) Has(ref *Ref) bool { return x.words[ref.id/64]&(1<<(ref.id%64)) != 0 }

// Intersect removes from x what is not in y, a set of the same snapshot.
func (x Set) Intersect(y Set) {
	for i := range x.words {
		x.words[i] &= y.words[i]
	}
}

// Subtract removes from x what is in y, a set of the same snapshot.
func (x Set) Subtract(y Set) {
	for i := range x.words {
		x.words[i] &^= y.words[i]
	}
}

// Len returns how many objects the set has.
func (x Set) Len() (n int) {
	for _, w := range x.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Walk calls f with the objects of a set of this snapshot, in no order, until f returns false.
func (s *Snapshot) Walk(x Set, f func(*Ref) bool) {
	for i, w := range x.words {
		for ; w != 0; w &= w - 1 {
			if r := s.at(uint32(i*64 + bits.TrailingZeros64(w))); r != nil && !f(r.Ref) { //nolint:gosec // ids have 32 bits
				return
			}
		}
	}
}
