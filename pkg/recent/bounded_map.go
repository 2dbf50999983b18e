// Package recent remembers a bounded number of recent things in memory.
package recent

import "iter"

// Map is a map of bounded size. It has two generations: entries that are set or used are in the young one; when that is full, it
// becomes the old one, and the entries of the former old one are forgotten. That is nearly LRU, without a list. Calls that change it
// need a lock.
type Map[K comparable, V any] struct {
	young, old map[K]V
	weight     int // of the young generation
	most       int // of one generation
	weigh      func(V) int
}

// NewMap returns an empty map of at most size entries.
func NewMap[K comparable, V any](size int) *Map[K, V] {
	return NewWeightedMap[K](size, func(V) int { return 1 })
}

// NewWeightedMap returns an empty map of values that weigh at most size together. A single value may weigh more: it is kept until the
// next one is set.
func NewWeightedMap[K comparable, V any](size int, weigh func(V) int) *Map[K, V] {
	return &Map[K, V]{young: map[K]V{}, most: size / 2, weigh: weigh}
}

// Get returns the value of a key, and whether it is known.
func (m *Map[K, V]) Get(key K) (V, bool) {
	if v, ok := m.young[key]; ok {
		return v, true
	}
	v, ok := m.old[key]
	return v, ok
}

// Use is Get that also counts as recent use, so that the key is not forgotten before those that are not used.
func (m *Map[K, V]) Use(key K) (V, bool) {
	if v, ok := m.young[key]; ok {
		return v, true
	}
	v, ok := m.old[key]
	if ok {
		m.Set(key, v)
	}
	return v, ok
}

// Has reports whether a key is known.
func (m *Map[K, V]) Has(key K) bool {
	_, ok := m.Get(key)
	return ok
}

// Set stores a value.
func (m *Map[K, V]) Set(key K, v V) {
	weight := m.weigh(v)
	if before, ok := m.young[key]; ok {
		m.weight -= m.weigh(before)
	}
	if m.weight += weight; m.weight > m.most {
		m.old, m.young, m.weight = m.young, make(map[K]V, len(m.young)), weight
	}
	delete(m.old, key)
	m.young[key] = v
}

// Delete forgets a key.
func (m *Map[K, V]) Delete(key K) {
	if v, ok := m.young[key]; ok {
		m.weight -= m.weigh(v)
	}
	delete(m.young, key)
	delete(m.old, key)
}

// Clear forgets all keys.
func (m *Map[K, V]) Clear() { m.young, m.old, m.weight = map[K]V{}, nil, 0 }

// All returns the keys that are known, with their values, in no order.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, some := range [...]map[K]V{m.old, m.young} {
			for k, v := range some {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// Len returns how many keys are known.
func (m *Map[K, V]) Len() int { return len(m.young) + len(m.old) }
