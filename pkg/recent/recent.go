// Package recent remembers a bounded number of recent things in memory.
package recent

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"
)

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

// Len returns how many keys are known.
func (m *Map[K, V]) Len() int { return len(m.young) + len(m.old) }

// Counters has a counter for each key, each in a window that the first count begins. Their number is bounded.
type Counters struct {
	*Map[uint64, Count]
}

// Count is a number that is valid until its window ends.
type Count struct {
	Count int32
	End   time.Time
}

// In returns the number at now, which is 0 after the window.
func (c Count) In(now time.Time) int32 {
	if now.Before(c.End) {
		return c.Count
	}
	return 0
}

// NewCounters returns counters for at most size keys.
func NewCounters(size int) *Counters {
	return &Counters{NewMap[uint64, Count](size)}
}

// Count returns the number of a key at now.
func (c *Counters) Count(key uint64, now time.Time) int32 {
	n, _ := c.Get(key)
	return n.In(now)
}

// Extend makes the number of a key valid until end.
func (c *Counters) Extend(key uint64, end time.Time) {
	n, _ := c.Get(key)
	n.End = end
	c.Set(key, n)
}

// Add counts n more, which may be negative, in a window that the first count begins.
func (c *Counters) Add(key uint64, n int32, now time.Time, window time.Duration) {
	was, _ := c.Get(key)
	if !now.Before(was.End) {
		was = Count{End: now.Add(window)}
	}
	was.Count = max(0, was.Count+n)
	c.Set(key, was)
}

// KeyOf returns a key for parts, which may hold any bytes, since users type some of them.
func KeyOf(parts ...string) uint64 {
	sum := sha256.Sum256(appendParts(nil, parts...))
	return binary.BigEndian.Uint64(sum[:])
}

// apart escapes the byte that ends a part, and the escape byte itself.
var apart = strings.NewReplacer("\x00", "\x01\x02", "\x01", "\x01\x01")

// appendParts appends parts so that no other parts make the same text. Parts without control characters stay as they are, each followed
// by a zero byte: stored keys were made so.
func appendParts(dst []byte, parts ...string) []byte {
	for _, p := range parts {
		dst = append(append(dst, apart.Replace(p)...), 0)
	}
	return dst
}
