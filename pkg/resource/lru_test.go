package resource

import (
	"strconv"
	"testing"
)

func newInt(n int) func(string) *int { return func(string) *int { return &n } }

func TestKeptIsBounded(t *testing.T) {
	c := newLRU[*int](lruBounds{entries: 10, bytes: 1000, one: 400})
	for i := range 30 {
		c.get([]byte(strconv.Itoa(i)), 1, newInt(i))
	}
	if len(c.byKey) != 10 || c.order.Len() != 10 || c.bytes != 10 {
		t.Fatalf("%d entries, %d bytes", len(c.byKey), c.bytes)
	}
	if c.byKey["19"] != nil || c.byKey["20"] == nil {
		t.Error("not the oldest went")
	}
	at := func(key string) *int { return c.get([]byte(key), 1, newInt(0)) }
	for i := range 4 {
		key := strconv.Itoa(20 + i)
		c.resize(key, at(key), 300)
	}
	if c.bytes > 1000 || c.byKey["23"] == nil || c.byKey["20"] != nil {
		t.Errorf("%d bytes of at most 1000: %v", c.bytes, c.byKey)
	}
	if c.resize("23", at("23"), 401); c.byKey["23"] != nil {
		t.Error("an entry above the bound of one is kept")
	}
	c.resize("22", new(int), 1) // not what is kept under the key
	if got := c.byKey["22"].Value.(*lruEntry[*int]).bytes; got != 300 {
		t.Errorf("a value that is not kept was weighed: %d", got)
	}
	sum := int64(0)
	for e := c.order.Front(); e != nil; e = e.Next() {
		sum += e.Value.(*lruEntry[*int]).bytes
	}
	if sum != c.bytes {
		t.Errorf("%d bytes, counted as %d", sum, c.bytes)
	}
}

func TestKeptGivesWhatItHas(t *testing.T) {
	c := newLRU[*int](lruBounds{entries: 2, bytes: 100, one: 100})
	a := c.get([]byte("a"), 1, newInt(1))
	c.get([]byte("b"), 1, newInt(2))
	if c.get([]byte("a"), 1, newInt(3)) != a {
		t.Error("another value for the same key")
	}
	c.get([]byte("c"), 1, newInt(4))
	if c.byKey["a"] == nil || c.byKey["b"] != nil {
		t.Error("what was used last went first")
	}
}

func TestIdleEntriesGo(t *testing.T) {
	c := newLRU[*int](lruBounds{entries: 10, bytes: 100, one: 100})
	c.get([]byte("a"), 1, newInt(1))
	c.get([]byte("b"), 1, newInt(2))
	c.evictIdle()
	c.get([]byte("a"), 1, newInt(1))
	if c.evictIdle(); c.byKey["a"] == nil || c.byKey["b"] != nil {
		t.Errorf("kept: %v", c.byKey)
	}
	if c.evictIdle(); len(c.byKey) != 0 || c.bytes != 0 || c.order.Len() != 0 {
		t.Errorf("kept: %v", c.byKey)
	}
}
