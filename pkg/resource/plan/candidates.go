package plan

import "kapis.dev/ks-apiserver/pkg/store/index"

// candidates are objects that may match: a range of a tree, or a list.
type candidates struct {
	tree index.Range
	list []*index.Ref
}

func (c *candidates) Len() int { return c.tree.Len() + len(c.list) }

// Walk calls f with the objects from i on, until it returns false.
func (c *candidates) Walk(i int, f func(*index.Ref) bool) {
	if c.list == nil {
		c.tree.Walk(i, false, f)
		return
	}
	for ; i < len(c.list) && f(c.list[i]); i++ { //nolint:revive // the body is f
	}
}

// Candidates returns objects among which are all that can match, each once: as few as possible.
func (p *Plan) Candidates(snap *index.Snapshot) candidates {
	if p.Never {
		return candidates{}
	}
	if p.named != nil {
		named := candidates{list: []*index.Ref{}}
		for name := range p.named {
			snap.Named(p.Namespace, name, func(ref *index.Ref) { named.list = append(named.list, ref) })
		}
		return named
	}
	best := []index.Range{snap.ByCreated(p.base)}
	fewest := best[0].Len()
	for _, c := range p.Conditions {
		if len(c.Terms) == 0 {
			continue
		}
		n := 0
		some := make([]index.Range, len(c.Terms))
		for i, t := range c.Terms {
			some[i] = snap.ByCreated(t)
			n += some[i].Len()
		}
		if n < fewest {
			best, fewest = some, n
		}
	}
	if len(best) == 1 {
		return candidates{tree: best[0]}
	}
	return distinct(best)
}

// distinct returns one list of ranges that may have objects in common.
func distinct(ranges []index.Range) candidates {
	all := candidates{list: []*index.Ref{}}
	seen := map[*index.Ref]struct{}{}
	for _, r := range ranges {
		r.Walk(0, false, func(ref *index.Ref) bool {
			if _, again := seen[ref]; !again {
				seen[ref] = struct{}{}
				all.list = append(all.list, ref)
			}
			return true
		})
	}
	return all
}
