package resource

import (
	"context"

	"kapis.dev/ks-apiserver/pkg/store/index"
)

// matches are the objects that a plan found, in its order: a range of a tree of the store, or rows.
type matches struct {
	tree index.Range
	rows *rows
}

func (m *matches) len() int {
	if m.rows != nil {
		return m.rows.Len()
	}
	return m.tree.Len()
}

// page calls f with n objects from start on; down counts from the end.
func (m *matches) page(start, n int, down bool, f func(*index.Ref)) {
	if down {
		start = m.len() - 1 - start
	}
	if m.rows == nil {
		m.tree.Walk(start, down, func(ref *index.Ref) bool {
			f(ref)
			n--
			return n > 0
		})
		return
	}
	pivot, ok := m.rows.GetAt(start)
	if !ok || n <= 0 {
		return
	}
	walk := m.rows.Ascend
	if down {
		walk = m.rows.Descend
	}
	walk(pivot, func(r row) bool {
		f(r.ref)
		n--
		return n > 0
	})
}

// direct returns the range that is the answer: the plan has at most one term, in an order of the trees.
func (p *plan) direct(snap *index.Snapshot) (index.Range, bool) {
	if p.named != nil || p.order.base > byTime {
		return index.Range{}, false
	}
	t := p.base
	for _, c := range p.conditions {
		if len(c.terms) != 1 || t != index.All() && t != c.terms[0] {
			return index.Range{}, false
		}
		t = c.terms[0]
	}
	if p.order.base == byCreated {
		return snap.ByCreated(t), true
	}
	return p.ordered(snap), len(p.conditions) == 0
}

// ordered returns all objects of the base in the plan's order, which is one that a tree has.
func (p *plan) ordered(snap *index.Snapshot) index.Range {
	switch p.order.base {
	case byName:
		return snap.ByName(p.base)
	case byTime:
		return snap.ByTime(p.order.time, p.base)
	default:
		return snap.ByCreated(p.base)
	}
}

// fewest returns the terms whose objects are the fewest that can match, and how many they are.
func (p *plan) fewest(snap *index.Snapshot) (terms []index.Term, n int) {
	terms, n = []index.Term{p.base}, snap.ByCreated(p.base).Len()
	for _, c := range p.conditions {
		if len(c.terms) == 0 {
			continue
		}
		sum := 0
		for _, t := range c.terms {
			sum += snap.ByCreated(t).Len()
		}
		if sum < n {
			terms, n = c.terms, sum
		}
	}
	return terms, n
}

// checkEvery is how many objects a scan looks at before it asks whether it shall go on.
const checkEvery = 256

// scan is one walk through the objects that can match.
type scan struct {
	*plan
	ctx  context.Context
	snap *index.Snapshot
	list []*index.Ref // what matches
	n    int
	err  error
}

// collect walks the fewest objects that can match, and keeps those that do. ordered tells whether they
// are in the plan's order. The error is that of ctx, or the plan's fault.
func (p *plan) collect(ctx context.Context, snap *index.Snapshot) (list []*index.Ref, ordered bool, err error) {
	s := &scan{plan: p, ctx: ctx, snap: snap}
	ordered = s.walk()
	if s.err == nil {
		s.err = p.failed()
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
	case best[0] == s.base && s.order.base <= byTime:
		s.ordered(s.snap).Walk(0, false, s.keep)
		return true
	}
	s.snap.ByCreated(best[0]).Walk(0, false, s.keep)
	return s.order.base == byCreated
}

// keep looks at one object, and tells whether the scan goes on.
func (s *scan) keep(ref *index.Ref) bool {
	if !s.goesOn() {
		return false
	}
	if s.holds(s.snap.Record(ref)) {
		s.list = append(s.list, ref)
	}
	return true
}

// goesOn counts an object that is looked at, and tells whether the scan shall go on.
func (s *scan) goesOn() bool {
	if s.n++; s.n%checkEvery == 0 {
		s.err = s.ctx.Err()
	}
	return s.err == nil
}

// walkNamed looks up the names that the plan has.
func (s *scan) walkNamed() {
	for name := range s.named {
		s.snap.Named(s.namespace, name, func(ref *index.Ref) { s.keep(ref) })
	}
}

// walkAny walks the ranges of several terms, and takes an object that is in several of them once.
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

// holds checks everything that the plan asks of an object.
func (p *plan) holds(r *index.Record) bool {
	if p.namespace != "" && r.Namespace != p.namespace {
		return false
	}
	if p.named != nil {
		if _, ok := p.named[r.Name]; !ok {
			return false
		}
	}
	for i := range p.conditions {
		if !p.conditions[i].holds(r) {
			return false
		}
	}
	return true
}
