package resource

import (
	"container/list"
	"sync"

	"kapis.dev/ks-apiserver/pkg/store"
)

// Bounds on the results that are kept for further pages.
const (
	maxResults    = 2048
	maxResultRefs = 4 << 20 // 32 MiB of pointers
)

// results keeps what queries found, so that further pages of the same moment need no search. What was
// used longest ago goes first.
type results struct {
	mu    sync.Mutex
	byKey map[string]*list.Element
	order *list.List // of *result, the latest used in front
	refs  int
}

type result struct {
	key        string
	generation uint64
	list       []*store.Ref
}

func newResults() *results {
	return &results{byKey: map[string]*list.Element{}, order: list.New()}
}

// get returns what was found for key in the generation.
func (c *results) get(key string, generation uint64) ([]*store.Ref, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok || e.Value.(*result).generation != generation {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*result).list, true
}

// put keeps what was found, unless it is too much or older than what is kept.
func (c *results) put(key string, generation uint64, found []*store.Ref) {
	if len(found) > maxResultRefs/4 || len(key) > 4096 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		if e.Value.(*result).generation >= generation {
			return
		}
		c.remove(e)
	}
	c.byKey[key] = c.order.PushFront(&result{key, generation, found})
	c.refs += len(found)
	for c.refs > maxResultRefs || c.order.Len() > maxResults {
		c.remove(c.order.Back())
	}
}

func (c *results) remove(e *list.Element) {
	r := c.order.Remove(e).(*result)
	delete(c.byKey, r.key)
	c.refs -= len(r.list)
}
