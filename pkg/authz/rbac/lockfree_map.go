package rbac

import (
	"hash/maphash"
	"sync/atomic"
)

// seed is of this process, so that nobody can choose names that fall into one bucket.
var seed = maphash.MakeSeed()

// table is a hash table that one goroutine at a time changes while any number of them read, without
// a lock and without allocating. A change costs as much as the chain that it is in, however large
// the table. The zero value is empty.
type table[V any] struct {
	buckets atomic.Pointer[[]bucket[V]]
	n       int // the writer's
}

// bucket is the head of a chain of entries, none of which is changed once it is in.
type bucket[V any] struct {
	head atomic.Pointer[entry[V]]
}

type entry[V any] struct {
	key   string
	hash  uint64
	value V
	next  *entry[V]
}

// get returns the value of key, and the zero value where there is none.
func (t *table[V]) get(key string) (value V, ok bool) {
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

// put sets the value of key.
func (t *table[V]) put(key string, value V) {
	buckets := t.room()
	h := maphash.String(seed, key)
	b := chain(buckets, h)
	rest, found := without(b.head.Load(), h, key)
	if !found {
		t.n++
	}
	b.head.Store(&entry[V]{key: key, hash: h, value: value, next: rest})
}

// drop removes key.
func (t *table[V]) drop(key string) {
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

// all passes every key and value to yield, until it returns false. What is changed meanwhile may or
// may not be among them.
func (t *table[V]) all(yield func(key string, value V) bool) {
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

// without returns the chain e less the entry of key; what stands before that entry is copied.
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

// room returns the buckets, twice as many as before where they were full. Readers of the old ones
// see the table as it was.
func (t *table[V]) room() []bucket[V] {
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
