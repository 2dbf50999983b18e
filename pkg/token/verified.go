package token

import (
	"sync"
	"time"
)

// verified remembers verified access tokens. The whole token is the key, and Go's maps compare keys
// whole behind a seeded hash: two tokens are never mistaken for each other, and none can be crafted
// to collide. Only tokens that verified are in it, so nobody else can fill it.
type verified struct {
	shards [shards]shard
	// size bounds each of a shard's two generations.
	size int
}

const shards = 16

// shard has two generations: what is used moves to the young one, which becomes the old one when it
// is full, and what was not used for a generation is dropped. That is near to LRU without a list.
type shard struct {
	mu         sync.RWMutex
	young, old map[string]entry
}

type entry struct {
	access *Access
	// set is what the token was verified with; another set verifies it again.
	set *KeySet
	// retire is the end of the key.
	retire time.Time
}

func newVerified(size int) *verified {
	if size <= 0 {
		return nil
	}
	c := &verified{size: max(1, size/(2*shards))}
	for i := range c.shards {
		c.shards[i].young = map[string]entry{}
	}
	return c
}

// shard chooses by a character of the signature, which is as good as random.
func (c *verified) shard(s string) *shard {
	if len(s) < 8 {
		return &c.shards[0]
	}
	return &c.shards[(s[len(s)-8]^s[len(s)-7]<<2)%shards]
}

func (c *verified) get(s string, set *KeySet) (entry, bool) {
	if c == nil {
		return entry{}, false
	}
	h := c.shard(s)
	h.mu.RLock()
	e, young := h.young[s]
	ok := young
	if !ok {
		e, ok = h.old[s]
	}
	h.mu.RUnlock()
	if !ok || e.set != set {
		return entry{}, false
	}
	if !young {
		c.put(s, e)
	}
	return e, true
}

func (c *verified) put(s string, e entry) {
	if c == nil {
		return
	}
	h := c.shard(s)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.young) >= c.size {
		h.old, h.young = h.young, make(map[string]entry, c.size)
	}
	h.young[s] = e
}
