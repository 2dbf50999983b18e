package resource

import (
	"container/list"
	"sync"
	"time"
)

// kept is a cache that is bounded in entries and bytes. What was used longest ago goes first, and what
// nobody used for a while goes too.
type kept[V comparable] struct {
	bounds

	mu    sync.Mutex
	byKey map[string]*list.Element
	order *list.List // of *keptEntry[V], the latest used in front
	bytes int64
	armed bool
}

// bounds are those of a kept.
type bounds struct {
	// entries and bytes bound them all, one bounds the bytes of one.
	entries    int
	bytes, one int64
	// idle is how long an entry stays at least that nobody uses; it is gone after twice that.
	idle time.Duration
}

type keptEntry[V comparable] struct {
	key   string
	value V
	bytes int64
	used  bool // since the last sweep
}

func newKept[V comparable](b bounds) *kept[V] {
	return &kept[V]{bounds: b, byKey: map[string]*list.Element{}, order: list.New()}
}

// get returns the value of key, which create makes where there is none. A new value weighs bytes.
func (c *kept[V]) get(key []byte, bytes int64, create func(key string) V) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[string(key)]; ok {
		c.order.MoveToFront(e)
		entry := e.Value.(*keptEntry[V])
		entry.used = true
		return entry.value
	}
	entry := &keptEntry[V]{key: string(key), bytes: bytes, used: true}
	entry.value = create(entry.key)
	c.byKey[entry.key] = c.order.PushFront(entry)
	c.bytes += bytes
	c.shrink()
	c.arm()
	return entry.value
}

// weigh says how many bytes a value has now. One that is too heavy is not kept.
func (c *kept[V]) weigh(key string, value V, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok || e.Value.(*keptEntry[V]).value != value {
		return // it is gone already
	}
	entry := e.Value.(*keptEntry[V])
	c.bytes += bytes - entry.bytes
	entry.bytes = bytes
	if bytes > c.one {
		c.remove(e)
	}
	c.shrink()
}

// shrink lets go of what is too much.
func (c *kept[V]) shrink() {
	for c.bytes > c.bounds.bytes || c.order.Len() > c.entries {
		c.remove(c.order.Back())
	}
}

func (c *kept[V]) remove(e *list.Element) {
	entry := c.order.Remove(e).(*keptEntry[V])
	delete(c.byKey, entry.key)
	c.bytes -= entry.bytes
}

// arm sees to it that idle entries go. It runs as long as there are any.
func (c *kept[V]) arm() {
	if !c.armed && c.idle > 0 && c.order.Len() > 0 {
		c.armed = true
		time.AfterFunc(c.idle, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.armed = false
			c.sweep()
			c.arm()
		})
	}
}

// sweep lets go of what was not used since it was called last.
func (c *kept[V]) sweep() {
	for e := c.order.Front(); e != nil; {
		at, entry := e, e.Value.(*keptEntry[V])
		if e = e.Next(); !entry.used {
			c.remove(at)
		}
		entry.used = false
	}
}
