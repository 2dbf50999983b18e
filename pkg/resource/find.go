package resource

import (
	"kapis.dev/ks-apiserver/pkg/store"
)

// matches are the objects that a plan found, in its order: a range of a tree, or a list.
type matches struct {
	tree store.Range
	list []*store.Ref
}

func (m *matches) len() int {
	if m.list != nil {
		return len(m.list)
	}
	return m.tree.Len()
}

// page calls f with n objects from start on; down counts from the end.
func (m *matches) page(start, n int, down bool, f func(*store.Ref)) {
	if down {
		start = m.len() - 1 - start
	}
	if m.list == nil {
		m.tree.Walk(start, down, func(ref *store.Ref) bool {
			f(ref)
			n--
			return n > 0
		})
		return
	}
	step := 1
	if down {
		step = -1
	}
	for i := start; n > 0; n-- {
		f(m.list[i])
		i += step
	}
}

// nothing is the list of no matches; it is not nil, since nil stands for a range.
var nothing = []*store.Ref{}

// find returns what matches the plan of b in a snapshot.
func (s *Service) find(snap *store.Snapshot, b *builder) (matches, error) {
	if b.never {
		return matches{list: nothing}, nil
	}
	if r, ok := b.direct(snap); ok {
		return matches{tree: r}, nil
	}
	key := b.resultKey()
	if list, ok := s.results.get(key, snap.Generation()); ok {
		return matches{list: list}, nil
	}
	list, ordered := b.collect(snap)
	if b.fault != nil {
		if err := b.fault(); err != nil {
			return matches{}, err
		}
	}
	if !ordered {
		b.order.sort(snap, list)
	}
	s.results.put(key, snap.Generation(), list)
	return matches{list: list}, nil
}

// direct returns the range that is the answer: the plan has at most one term, in an order of the trees.
func (p *plan) direct(snap *store.Snapshot) (store.Range, bool) {
	if p.named != nil || p.order.base > byTime {
		return store.Range{}, false
	}
	t := p.base
	for _, c := range p.conditions {
		if len(c.terms) != 1 || t != store.All() && t != c.terms[0] {
			return store.Range{}, false
		}
		t = c.terms[0]
	}
	if p.order.base == byCreated {
		return snap.ByCreated(t), true
	}
	return p.ordered(snap), len(p.conditions) == 0
}

// ordered returns all objects of the base in the plan's order, which is one that a tree has.
func (p *plan) ordered(snap *store.Snapshot) store.Range {
	switch p.order.base {
	case byName:
		return snap.ByName(p.base)
	case byTime:
		return snap.ByTime(p.order.time, p.base)
	default:
		return snap.ByCreated(p.base)
	}
}

// collect walks the fewest objects that can match, and keeps those that do. ordered tells whether they
// are in the plan's order.
func (p *plan) collect(snap *store.Snapshot) (list []*store.Ref, ordered bool) {
	keep := func(ref *store.Ref) bool {
		if p.holds(snap.Record(ref)) {
			list = append(list, ref)
		}
		return true
	}
	list = nothing
	best := []store.Term{p.base}
	fewest := snap.ByCreated(p.base).Len()
	for _, c := range p.conditions {
		if len(c.terms) == 0 {
			continue
		}
		n := 0
		for _, t := range c.terms {
			n += snap.ByCreated(t).Len()
		}
		if n < fewest {
			best, fewest = c.terms, n
		}
	}
	if p.named != nil && len(p.named) <= fewest {
		p.collectNamed(snap, keep)
		return list, false
	}
	if fewest > searchAbove && p.search(snap, keep) {
		return list, false
	}
	if fewest > searchAbove {
		if list, ordered, ok := p.collectSets(snap, best, fewest); ok {
			return list, ordered
		}
	}
	if len(best) == 1 && best[0] == p.base && p.order.base <= byTime {
		p.ordered(snap).Walk(0, false, keep)
		return list, true
	}
	if len(best) == 1 {
		snap.ByCreated(best[0]).Walk(0, false, keep)
		return list, p.order.base == byCreated
	}
	p.collectAny(snap, best, keep)
	return list, false
}

// collectNamed looks up the names that the plan has.
func (p *plan) collectNamed(snap *store.Snapshot, keep func(*store.Ref) bool) {
	for name := range p.named {
		snap.Named(p.namespace, name, func(ref *store.Ref) { keep(ref) })
	}
}

// collectAny walks the ranges of several terms, and takes an object that is in several of them once.
func (p *plan) collectAny(snap *store.Snapshot, terms []store.Term, keep func(*store.Ref) bool) {
	seen := map[*store.Ref]struct{}{}
	for _, t := range terms {
		snap.ByCreated(t).Walk(0, false, func(ref *store.Ref) bool {
			if _, ok := seen[ref]; ok {
				return true
			}
			seen[ref] = struct{}{}
			return keep(ref)
		})
	}
}

// holds checks everything that the plan asks of an object.
func (p *plan) holds(r *store.Record) bool {
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
