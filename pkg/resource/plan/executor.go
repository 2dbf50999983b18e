package plan

import (
	"context"
	"sort"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Matches are the objects that a plan found, in its order: a range of a tree of the store, or rows.
type Matches struct {
	Tree index.Range
	Rows *Rows
}

// Len returns how many objects match.
func (m *Matches) Len() int {
	if m.Rows != nil {
		return m.Rows.Len()
	}
	return m.Tree.Len()
}

// Page calls f with n objects from start on; down counts from the end.
func (m *Matches) Page(start, n int, down bool, f func(*index.Ref)) {
	if down {
		start = m.Len() - 1 - start
	}
	if m.Rows == nil {
		m.Tree.Walk(start, down, func(ref *index.Ref) bool {
			f(ref)
			n--
			return n > 0
		})
		return
	}
	pivot, ok := m.Rows.GetAt(start)
	if !ok || n <= 0 {
		return
	}
	walk := m.Rows.Ascend
	if down {
		walk = m.Rows.Descend
	}
	walk(pivot, func(r row) bool {
		f(r.ref)
		n--
		return n > 0
	})
}

// Direct returns the range that is the answer: the plan has at most one term, in an order of the trees.
func (p *Plan) Direct(snap *index.Snapshot) (index.Range, bool) {
	if p.named != nil || p.Order.base > byTime {
		return index.Range{}, false
	}
	t := p.base
	for _, c := range p.Conditions {
		if len(c.Terms) != 1 || t != index.All() && t != c.Terms[0] {
			return index.Range{}, false
		}
		t = c.Terms[0]
	}
	if p.Order.base == byCreated {
		return snap.ByCreated(t), true
	}
	return p.ordered(snap), len(p.Conditions) == 0
}

// ordered returns all objects of the base in the plan's order, which is one that a tree has.
func (p *Plan) ordered(snap *index.Snapshot) index.Range {
	switch p.Order.base {
	case byName:
		return snap.ByName(p.base)
	case byTime:
		return snap.ByTime(p.Order.time, p.base)
	default:
		return snap.ByCreated(p.base)
	}
}

// fewest returns the terms whose objects are the fewest that can match, and how many they are.
func (p *Plan) fewest(snap *index.Snapshot) (terms []index.Term, n int) {
	terms, n = []index.Term{p.base}, snap.ByCreated(p.base).Len()
	for _, c := range p.Conditions {
		if len(c.Terms) == 0 {
			continue
		}
		sum := 0
		for _, t := range c.Terms {
			sum += snap.ByCreated(t).Len()
		}
		if sum < n {
			terms, n = c.Terms, sum
		}
	}
	return terms, n
}

// CheckEvery is how many objects a scan tests before it checks whether to go on.
const CheckEvery = 256

// scan is one walk through the objects that can match.
type scan struct {
	*Plan
	ctx  context.Context
	snap *index.Snapshot
	list []*index.Ref // what matches
	n    int
	err  error
}

// Collect walks the fewest objects that can match, and returns those that do. ordered reports whether they are in the plan's
// order. The error is that of ctx, or the plan's fault.
func (p *Plan) Collect(ctx context.Context, snap *index.Snapshot) (list []*index.Ref, ordered bool, err error) {
	s := &scan{Plan: p, ctx: ctx, snap: snap}
	ordered = s.walk()
	if s.err == nil {
		s.err = p.Failed()
	}
	return s.list, ordered, s.err
}

func (s *scan) walk() (ordered bool) {
	best, n := s.fewest(s.snap)
	switch {
	case s.named != nil && len(s.named) <= n:
		s.walkNamed()
		return false
	case n > searchAbove && s.textSearch(s.snap, s.keep):
		return false
	}
	if n > searchAbove {
		if ordered, ok := s.walkBitsets(best, n); ok {
			return ordered
		}
	}
	switch {
	case len(best) > 1:
		s.walkAny(best)
		return false
	case best[0] == s.base && s.Order.base <= byTime:
		s.ordered(s.snap).Walk(0, false, s.keep)
		return true
	}
	s.snap.ByCreated(best[0]).Walk(0, false, s.keep)
	return s.Order.base == byCreated
}

// keep tests one object, and reports whether the scan goes on.
func (s *scan) keep(ref *index.Ref) bool {
	if !s.goesOn() {
		return false
	}
	if s.Holds(s.snap.Record(ref)) {
		s.list = append(s.list, ref)
	}
	return true
}

// goesOn counts a tested object, and reports whether the scan goes on.
func (s *scan) goesOn() bool {
	if s.n++; s.n%CheckEvery == 0 {
		s.err = s.ctx.Err()
	}
	return s.err == nil
}

// walkNamed looks up the names that the plan has.
func (s *scan) walkNamed() {
	for name := range s.named {
		s.snap.Named(s.Namespace, name, func(ref *index.Ref) { s.keep(ref) })
	}
}

// walkAny walks the ranges of several terms, and visits an object that is in several of them once.
func (s *scan) walkAny(terms []index.Term) {
	seen := map[*index.Ref]struct{}{}
	for _, t := range terms {
		s.snap.ByCreated(t).Walk(0, false, func(ref *index.Ref) bool {
			if _, ok := seen[ref]; ok {
				return true
			}
			seen[ref] = struct{}{}
			return s.keep(ref)
		})
	}
}

// Holds reports whether an object satisfies the whole plan.
func (p *Plan) Holds(r *index.Record) bool {
	if p.Namespace != "" && r.Namespace != p.Namespace {
		return false
	}
	if p.named != nil {
		if _, ok := p.named[r.Name]; !ok {
			return false
		}
	}
	for i := range p.Conditions {
		if !p.Conditions[i].Holds(r) {
			return false
		}
	}
	return true
}

// Matches is Holds, and false where nothing can match.
func (p *Plan) Matches(r *index.Record) bool { return !p.Never && p.Holds(r) }

// Worthwhile reports whether applying so many changes costs less than testing what can match.
func (p *Plan) Worthwhile(changes uint64, snap *index.Snapshot) bool {
	if changes <= 64 {
		return true
	}
	if p.named != nil && uint64(len(p.named)) < changes {
		return false
	}
	_, n := p.fewest(snap)
	return changes <= uint64(n) //nolint:gosec // a length
}

// Find returns how many of the matches are before a position, down from the end.
func (o *Order) Find(m *Matches, snap *index.Snapshot, at *query.Cursor, down bool) int {
	// Downwards, what is before is what is above, and a page that begins with the position has the position's own object.
	beyond := at.After != down
	var room []byte
	n := sort.Search(m.Len(), func(i int) bool {
		c := 0
		m.Page(i, 1, false, func(ref *index.Ref) {
			r := snap.Record(ref)
			room = o.AppendKey(room[:0], r)
			c = at.Compare(string(room), r.Namespace, r.Name)
		})
		return c < 0 || c == 0 && !beyond
	})
	if down {
		return m.Len() - n
	}
	return n
}
