package resource

import (
	"container/list"
	"sync"
	"time"
)

// lruCache is a cache that is bounded in entries and bytes. What was used longest ago goes first, and what
// nobody used for a while goes too.
type lruCache[V comparable] struct {
	lruBounds

	mu    sync.Mutex
	byKey map[string]*list.Element
	order *list.List // of *lruEntry[V], the latest used first
	bytes int64
	armed bool
}

// lruBounds are those of a kept.
type lruBounds struct {
	// entries and bytes bound them all, one bounds the bytes of one.
	entries    int
	bytes, one int64
	// idle is how long an entry stays at least that nobody uses; it is gone after twice that.
	idle time.Duration
}

type lruEntry[V comparable] struct {
	key   string
	value V
	bytes int64
	used  bool // since the last sweep
}

func newLRU[V comparable](b lruBounds) *lruCache[V] {
	return &lruCache[V]{lruBounds: b, byKey: map[string]*list.Element{}, order: list.New()}
}

// get returns the value of key, which create makes where there is none. A new value weighs bytes.
func (c *lruCache[V]) get(key []byte, bytes int64, create func(key string) V) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[string(key)]; ok {
		c.order.MoveToFront(e)
		entry := e.Value.(*lruEntry[V])
		entry.used = true
		return entry.value
	}
	entry := &lruEntry[V]{key: string(key), bytes: bytes, used: true}
	entry.value = create(entry.key)
	c.byKey[entry.key] = c.order.PushFront(entry)
	c.bytes += bytes
	c.evict()
	c.arm()
	return entry.value
}

// resize says how many bytes a value has now. One that is too heavy is not kept.
func (c *lruCache[V]) resize(key string, value V, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok || e.Value.(*lruEntry[V]).value != value {
		return // it is gone already
	}
	entry := e.Value.(*lruEntry[V])
	c.bytes += bytes - entry.bytes
	entry.bytes = bytes
	if bytes > c.one {
		c.remove(e)
	}
	c.evict()
}

// evict lets go of what is too much.
func (c *lruCache[V]) evict() {
	for c.bytes > c.lruBounds.bytes || c.order.Len() > c.entries {
		c.remove(c.order.Back())
	}
}

func (c *lruCache[V]) remove(e *list.Element) {
	entry := c.order.Remove(e).(*lruEntry[V])
	delete(c.byKey, entry.key)
	c.bytes -= entry.bytes
}

// arm sees to it that idle entries go. It runs as long as there are any.
func (c *lruCache[V]) arm() {
	if !c.armed && c.idle > 0 && c.order.Len() > 0 {
		c.armed = true
		time.AfterFunc(c.idle, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.armed = false
			c.evictIdle()
			c.arm()
		})
	}
}

// evictIdle lets go of what was not used since it was called last.
func (c *lruCache[V]) evictIdle() {
	for e := c.order.Front(); e != nil; {
		at, entry := e, e.Value.(*lruEntry[V])
		if e = e.Next(); !entry.used {
			c.remove(at)
		}
		entry.used = false
	}
}
