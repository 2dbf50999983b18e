// Package recent remembers a bounded number of recent things in memory.
package recent

// Map is a bounded map. It has two generations, and forgets the older one when both are full.
type Map[K comparable, V any] struct {
	size       int
	young, old map[K]V
}

// NewMap returns an empty map of at most size entries.
func NewMap[K comparable, V any](size int) *Map[K, V] {
	return &Map[K, V]{size: size / 2, young: map[K]V{}}
}

// Get returns the value of a key, and whether it is known.
func (m *Map[K, V]) Get(key K) (V, bool) {
	if v, ok := m.young[key]; ok {
		return v, true
	}
	v, ok := m.old[key]
	return v, ok
}

// Has reports whether a key is known.
func (m *Map[K, V]) Has(key K) bool {
	_, ok := m.Get(key)
	return ok
}

// Set stores a value.
func (m *Map[K, V]) Set(key K, v V) {
	if _, ok := m.young[key]; !ok && len(m.young) >= m.size {
		m.old, m.young = m.young, map[K]V{}
	}
	m.young[key] = v
}

// Len returns how many keys are known.
func (m *Map[K, V]) Len() int { return len(m.young) + len(m.old) }

// Delete forgets a key.
func (m *Map[K, V]) Delete(key K) {
	delete(m.young, key)
	delete(m.old, key)
}
