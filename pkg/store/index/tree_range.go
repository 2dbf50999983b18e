package index

import (
	"cmp"
	"strings"

	"github.com/tidwall/btree"
)

// entry is an object in the range of a term.
type entry struct {
	term Term
	ref  *Ref
}

// tree is a counted, copy-on-write B-tree. The original is the writer's; copies are read only.
type tree = btree.BTreeG[entry]

func newTree(less func(a, b entry) bool) *tree {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

// first sorts before every object of its term and last after. They are recognized by their addresses.
var first, last = &Ref{Name: "first"}, &Ref{Name: "last"}

func lessCreated(a, b entry) bool { return less(a, b, CompareCreated) }

func lessName(a, b entry) bool { return less(a, b, CompareName) }

func less(a, b entry, compare func(a, b *Ref) int) bool {
	switch c := a.term.compare(b.term); {
	case c != 0:
		return c < 0
	case b.ref == last || a.ref == first:
		return a.ref != b.ref
	case a.ref == last || b.ref == first:
		return false
	}
	return compare(a.ref, b.ref) < 0
}

// CompareCreated is the order by creation time, then namespace, then name.
func CompareCreated(a, b *Ref) int {
	if c := cmp.Compare(a.Created, b.Created); c != 0 {
		return c
	}
	return CompareKey(a, b)
}

// CompareName is the order by name, then namespace.
func CompareName(a, b *Ref) int {
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return strings.Compare(a.Namespace, b.Namespace)
}

// CompareKey is the order by namespace, then name: the end of every order.
func CompareKey(a, b *Ref) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// Range is the objects of one term in one order. It is immutable.
type Range struct {
	tree *tree
	from int
	n    int
}

// Len returns how many objects the range has.
func (r Range) Len() int { return r.n }

// Walk calls f with the objects from index i on, upwards, or with down from index i downwards, until f
// returns false or the range ends. Its cost does not depend on i.
func (r Range) Walk(i int, down bool, f func(*Ref) bool) {
	if i < 0 || i >= r.n {
		return
	}
	pivot, ok := r.tree.GetAt(r.from + i)
	if !ok {
		return
	}
	left := r.n - i
	if down {
		left = i + 1
	}
	visit := func(e entry) bool {
		left--
		return f(e.ref) && left > 0
	}
	if down {
		r.tree.Descend(pivot, visit)
	} else {
		r.tree.Ascend(pivot, visit)
	}
}

// rank returns how many entries of t sort before e.
func rank(t *tree, e entry, less func(a, b entry) bool) int {
	low, high := 0, t.Len()
	for low < high {
		mid := int(uint(low+high) >> 1)
		if at, _ := t.GetAt(mid); less(at, e) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}
