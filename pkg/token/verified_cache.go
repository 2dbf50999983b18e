package token

import (
	"sync"
	"time"

	"kapis.dev/ks-apiserver/pkg/recent"
)

// verified caches verified access tokens. The whole token is the key, and Go's maps compare whole keys after a seeded hash: two tokens
// are never mistaken for each other, and none can be crafted to collide. It has only tokens that verified, so a client can't fill it with
// others.
type verified struct {
	shards [shards]shard
}

const shards = 16

type shard struct {
	mu     sync.Mutex
	tokens *recent.Map[string, entry]
}

type entry struct {
	access *Access
	// set is the key set that the token was verified with; with another set it is verified again.
	set *KeySet
	// retire is the end of the key.
	retire time.Time
}

func newVerified(size int) *verified {
	if size <= 0 {
		return nil
	}
	c := &verified{}
	for i := range c.shards {
		c.shards[i].tokens = recent.NewMap[string, entry](max(2, size/shards))
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
	h.mu.Lock()
	defer h.mu.Unlock()
	e, ok := h.tokens.Use(s)
	if !ok || e.set != set {
		return entry{}, false
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
	h.tokens.Set(s, e)
}
