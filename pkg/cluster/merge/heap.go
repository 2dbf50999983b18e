package merge

import "container/heap"

// merge returns the first rows of several clusters' after skip of them, at most limit. No cluster's rows are read further than that.
func merge(o *order, of [][]key, skip, limit int) []key {
	h := &heads{order: o}
	for _, rows := range of {
		if len(rows) > 0 {
			h.of = append(h.of, rows)
		}
	}
	heap.Init(h)
	var out []key
	for len(h.of) > 0 && len(out) < limit {
		if skip > 0 {
			skip--
		} else {
			out = append(out, h.of[0][0])
		}
		if h.of[0] = h.of[0][1:]; len(h.of[0]) > 0 {
			heap.Fix(h, 0)
		} else {
			heap.Pop(h)
		}
	}
	return out
}

// heads is a heap of clusters' rows by the first of them.
type heads struct {
	order *order
	of    [][]key
}

// Len implements heap.Interface.
func (h *heads) Len() int { return len(h.of) }

// Less implements heap.Interface.
func (h *heads) Less(i, j int) bool { return h.order.compare(&h.of[i][0], &h.of[j][0]) < 0 }

// Swap implements heap.Interface.
func (h *heads) Swap(i, j int) { h.of[i], h.of[j] = h.of[j], h.of[i] }

// Push implements heap.Interface.
func (h *heads) Push(x any) { h.of = append(h.of, x.([]key)) }

// Pop implements heap.Interface.
func (h *heads) Pop() any {
	last := h.of[len(h.of)-1]
	h.of = h.of[:len(h.of)-1]
	return last
}
