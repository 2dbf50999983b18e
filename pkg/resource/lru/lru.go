package lru

import (
	"container/list"
	"crypto/sha256"
	"strconv"
	"sync"
	"time"
)

// Cache is a cache that is bounded in entries and bytes. The least recently used entry goes first, and unused ones go after
// a while.
type Cache[V comparable] struct {
	Bounds

	mu    sync.Mutex
	byKey map[string]*list.Element
	order *list.List // of *entry[V], the latest used first
	bytes int64
	armed bool
}

// Bounds bounds a Cache.
type Bounds struct {
	// Entries and Bytes bound all entries together, One the bytes of one entry.
	Entries    int
	Bytes, One int64
	// Idle is how long an unused entry stays at least; it is gone after twice that.
	Idle time.Duration
}

type entry[V comparable] struct {
	key   string
	value V
	bytes int64
	used  bool // since the last call of evictIdle
}

// New returns an empty cache.
func New[V comparable](b Bounds) *Cache[V] {
	return &Cache[V]{Bounds: b, byKey: map[string]*list.Element{}, order: list.New()}
}

// Get returns the value of key. If there is none, create makes one, whose size is bytes.
func (c *Cache[V]) Get(key []byte, bytes int64, create func(key string) V) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[string(key)]; ok {
		c.order.MoveToFront(e)
		entry := e.Value.(*entry[V])
		entry.used = true
		return entry.value
	}
	entry := &entry[V]{key: string(key), bytes: bytes, used: true}
	entry.value = create(entry.key)
	c.byKey[entry.key] = c.order.PushFront(entry)
	c.bytes += bytes
	c.evict()
	c.arm()
	return entry.value
}

// Resize sets how many bytes a value has. One that is too large is removed.
func (c *Cache[V]) Resize(key string, value V, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok || e.Value.(*entry[V]).value != value {
		return // it was evicted
	}
	entry := e.Value.(*entry[V])
	c.bytes += bytes - entry.bytes
	entry.bytes = bytes
	if bytes > c.One {
		c.remove(e)
	}
	c.evict()
}

// evict removes entries until the bounds hold.
func (c *Cache[V]) evict() {
	for c.bytes > c.Bytes || c.order.Len() > c.Entries {
		c.remove(c.order.Back())
	}
}

func (c *Cache[V]) remove(e *list.Element) {
	entry := c.order.Remove(e).(*entry[V])
	delete(c.byKey, entry.key)
	c.bytes -= entry.bytes
}

// arm starts the timer that evicts idle entries. It runs as long as there are any.
func (c *Cache[V]) arm() {
	if !c.armed && c.Idle > 0 && c.order.Len() > 0 {
		c.armed = true
		time.AfterFunc(c.Idle, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.armed = false
			c.evictIdle()
			c.arm()
		})
	}
}

// evictIdle removes what was not used since its last call.
func (c *Cache[V]) evictIdle() {
	for e := c.order.Front(); e != nil; {
		at, entry := e, e.Value.(*entry[V])
		if e = e.Next(); !entry.used {
			c.remove(at)
		}
		entry.used = false
	}
}

// Size returns how many bytes the values have together.
func (c *Cache[V]) Size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// AppendPart appends a part of a key with its length in front, so that no two lists of parts make one key.
func AppendPart(dst []byte, s string) []byte {
	return append(append(strconv.AppendInt(dst, int64(len(s)), 10), ':'), s...)
}

// ShortKey returns key, or the SHA-256 of a long one. Keys begin with a digit (AppendPart), so that none is a hash.
func ShortKey(key []byte) []byte {
	if len(key) <= 1024 {
		return key
	}
	sum := sha256.Sum256(key)
	return append(append(key[:0], '#'), sum[:]...)
}
