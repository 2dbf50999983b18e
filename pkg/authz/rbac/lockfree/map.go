// Package lockfree provides a map that is read without a lock and without an allocation: a decision of package rbac reads up to four.
package lockfree

import (
	"hash/maphash"
	"sync/atomic"
)

// seed is this process's own, so that no one can choose names that fall into one bucket.
var seed = maphash.MakeSeed()

// Map is a hash table that one goroutine at a time changes while any number of them read, without
// a lock and without allocating. A change costs as much as the chain that it is in, however large
// the map. The zero value is empty.
type Map[V any] struct {
	buckets atomic.Pointer[[]bucket[V]]
	n       int // the writer's
}

// bucket is the head of a chain of entries, which are immutable once they are in.
type bucket[V any] struct {
	head atomic.Pointer[entry[V]]
}

type entry[V any] struct {
	key   string
	hash  uint64
	value V
	next  *entry[V]
}

// Get returns the value of key, or the zero value if there is none.
func (t *Map[V]) Get(key string) (value V, ok bool) {
	buckets := t.buckets.Load()
	if buckets == nil {
		return value, false
	}
	h := maphash.String(seed, key)
	for e := chain(*buckets, h).head.Load(); e != nil; e = e.next {
		if e.hash == h && e.key == key {
			return e.value, true
		}
	}
	return value, false
}

// Put sets the value of key.
func (t *Map[V]) Put(key string, value V) {
	buckets := t.room()
	h := maphash.String(seed, key)
	b := chain(buckets, h)
	rest, found := without(b.head.Load(), h, key)
	if !found {
		t.n++
	}
	b.head.Store(&entry[V]{key: key, hash: h, value: value, next: rest})
}

// Len returns how many keys there are, for the goroutine that changes the map.
func (t *Map[V]) Len() int { return t.n }

// Delete removes key.
func (t *Map[V]) Delete(key string) {
	buckets := t.buckets.Load()
	if buckets == nil {
		return
	}
	h := maphash.String(seed, key)
	b := chain(*buckets, h)
	if rest, found := without(b.head.Load(), h, key); found {
		b.head.Store(rest)
		t.n--
	}
}

// All passes every key and value to yield, until it returns false. It may or may not include changes made meanwhile.
func (t *Map[V]) All(yield func(key string, value V) bool) {
	buckets := t.buckets.Load()
	if buckets == nil {
		return
	}
	for n := range *buckets {
		for e := (*buckets)[n].head.Load(); e != nil; e = e.next {
			if !yield(e.key, e.value) {
				return
			}
		}
	}
}

func chain[V any](buckets []bucket[V], h uint64) *bucket[V] {
	return &buckets[h&uint64(len(buckets)-1)]
}

// without returns the chain e less the entry of key; the entries before it are copied.
func without[V any](e *entry[V], h uint64, key string) (rest *entry[V], found bool) {
	if e == nil {
		return nil, false
	}
	if e.hash == h && e.key == key {
		return e.next, true
	}
	rest, found = without(e.next, h, key)
	if !found {
		return e, false
	}
	c := *e
	c.next = rest
	return &c, true
}

// room returns the buckets, doubled if they were full. Readers of the old ones see the map as it was.
func (t *Map[V]) room() []bucket[V] {
	const fewest = 4 // a power of two, as every later size
	old := t.buckets.Load()
	if old == nil {
		buckets := make([]bucket[V], fewest)
		t.buckets.Store(&buckets)
		return buckets
	}
	if t.n < len(*old) {
		return *old
	}
	buckets := make([]bucket[V], 2*len(*old))
	for n := range *old {
		for e := (*old)[n].head.Load(); e != nil; e = e.next {
			b := chain(buckets, e.hash)
			c := *e
			c.next = b.head.Load()
			b.head.Store(&c)
		}
	}
	t.buckets.Store(&buckets)
	return buckets
}
