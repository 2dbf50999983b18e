package plan

import (
	"math/bits"

	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Filters that match much of a large kind are not tested object by object where indexes know the answer: the objects of each
// are a bit set, and the objects in all sets are taken from the requested order.
//
// What it buys: a filter by two labels over 12 000 pods takes 1.0 ms by bit sets and 15.8 ms by testing each object
// (BenchmarkBitsets). The plain twin is the test of each object, which TestSetsFindWhatTestsFind compares it with.

// scanRatio is how many entries of an order are walked in the time in which one object's JSON is tested.
const scanRatio = 8

// bitsetFilter is what objects of a walk have to pass.
type bitsetFilter struct {
	set  index.Set
	used bool // set is of use: there is a condition that an index answers
	rest []Condition
}

// bitsetFilterOf returns what the indexes say about a plan. fewest is how many objects are to be tested without them: a
// condition whose set costs more to build than testing that many objects is left to the test.
func (p *Plan) bitsetFilterOf(snap *index.Snapshot, fewest int) *bitsetFilter {
	s := &bitsetFilter{}
	all := func() {
		if !s.used {
			s.set, s.used = snap.Set(p.base), true
		}
	}
	var minus []Condition
	for _, c := range p.Conditions {
		n, negative := c.size(snap)
		switch {
		case n < 0 || n > fewest*scanRatio:
			s.rest = append(s.rest, c)
		case negative:
			minus = append(minus, c)
		case !s.used:
			s.set, s.used = c.objects(snap), true
		default:
			s.set.Intersect(c.objects(snap))
		}
	}
	for _, c := range minus {
		all()
		s.set.Subtract(c.objects(snap))
	}
	return s
}

// size returns how many objects the index names for a condition, -1 where no index does. negative says that those don't
// match.
func (c *Condition) size(snap *index.Snapshot) (n int, negative bool) {
	switch {
	case len(c.Terms) > 0:
		return count(snap, c.Terms), false
	case len(c.without) > 0:
		return count(snap, c.without), true
	case c.label != "":
		return snap.CountLabel(c.label), c.lacks
	}
	return -1, false
}

func count(snap *index.Snapshot, terms []index.Term) (n int) {
	for _, t := range terms {
		n += snap.ByCreated(t).Len()
	}
	return n
}

// objects returns those that size counts.
func (c *Condition) objects(snap *index.Snapshot) index.Set {
	switch {
	case len(c.Terms) > 0:
		return snap.Set(c.Terms...)
	case len(c.without) > 0:
		return snap.Set(c.without...)
	}
	return snap.SetOfLabel(c.label)
}

// passes tests what the sets don't decide.
func (p *Plan) passes(s *bitsetFilter, snap *index.Snapshot, ref *index.Ref) bool {
	if p.Namespace != "" && ref.Namespace != p.Namespace {
		return false
	}
	if p.named != nil {
		if _, ok := p.named[ref.Name]; !ok {
			return false
		}
	}
	for i := range s.rest {
		if !s.rest[i].Holds(snap.Record(ref)) {
			return false
		}
	}
	return true
}

// walkBitsets is walk for a plan with conditions that indexes answer. ok is false for a plan with none.
func (s *scan) walkBitsets(best []index.Term, fewest int) (ordered, ok bool) {
	filter := s.bitsetFilterOf(s.snap, fewest)
	if !filter.used {
		return false, false
	}
	n := filter.set.Len()
	s.list = make([]*index.Ref, 0, n)
	keep := func(ref *index.Ref) bool {
		if !s.goesOn() {
			return false
		}
		if s.passes(filter, s.snap, ref) {
			s.list = append(s.list, ref)
		}
		return true
	}
	from := s.along(s.snap, best)
	// Sorting n objects takes n log n comparisons, of texts all over the memory.
	if ordered = s.Order.base <= byTime && from.Len() <= n*bits.Len(uint(n)); ordered {
		from.Walk(0, false, func(ref *index.Ref) bool { return !filter.set.Has(ref) || keep(ref) })
		return true, true
	}
	s.snap.Walk(filter.set, keep)
	return false, true
}

// along returns the shortest range in the plan's order that has all matches.
func (p *Plan) along(snap *index.Snapshot, best []index.Term) index.Range {
	if len(best) == 1 && p.Order.base == byCreated {
		return snap.ByCreated(best[0])
	}
	return p.ordered(snap)
}
