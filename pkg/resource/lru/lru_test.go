package lru

import (
	"strconv"
	"testing"
)

func newInt(n int) func(string) *int { return func(string) *int { return &n } }

func TestKeptIsBounded(t *testing.T) {
	c := New[*int](Bounds{Entries: 10, Bytes: 1000, One: 400})
	for i := range 30 {
		c.Get([]byte(strconv.Itoa(i)), 1, newInt(i))
	}
	if len(c.byKey) != 10 || c.order.Len() != 10 || c.bytes != 10 {
		t.Fatalf("%d entries, %d bytes", len(c.byKey), c.bytes)
	}
	if c.byKey["19"] != nil || c.byKey["20"] == nil {
		t.Error("not the oldest went")
	}
	at := func(key string) *int { return c.Get([]byte(key), 1, newInt(0)) }
	for i := range 4 {
		key := strconv.Itoa(20 + i)
		c.Resize(key, at(key), 300)
	}
	if c.bytes > 1000 || c.byKey["23"] == nil || c.byKey["20"] != nil {
		t.Errorf("%d bytes of at most 1000: %v", c.bytes, c.byKey)
	}
	if c.Resize("23", at("23"), 401); c.byKey["23"] != nil {
		t.Error("an entry above the bound of one is kept")
	}
	c.Resize("22", new(int), 1) // not the value of the key
	if got := c.byKey["22"].Value.(*entry[*int]).bytes; got != 300 {
		t.Errorf("a value that is not kept was weighed: %d", got)
	}
	sum := int64(0)
	for e := c.order.Front(); e != nil; e = e.Next() {
		sum += e.Value.(*entry[*int]).bytes
	}
	if sum != c.bytes {
		t.Errorf("%d bytes, counted as %d", sum, c.bytes)
	}
}

func TestKeptGivesWhatItHas(t *testing.T) {
	c := New[*int](Bounds{Entries: 2, Bytes: 100, One: 100})
	a := c.Get([]byte("a"), 1, newInt(1))
	c.Get([]byte("b"), 1, newInt(2))
	if c.Get([]byte("a"), 1, newInt(3)) != a {
		t.Error("another value for the same key")
	}
	c.Get([]byte("c"), 1, newInt(4))
	if c.byKey["a"] == nil || c.byKey["b"] != nil {
		t.Error("what was used last went first")
	}
}

func TestIdleEntriesGo(t *testing.T) {
	c := New[*int](Bounds{Entries: 10, Bytes: 100, One: 100})
	c.Get([]byte("a"), 1, newInt(1))
	c.Get([]byte("b"), 1, newInt(2))
	c.evictIdle()
	c.Get([]byte("a"), 1, newInt(1))
	if c.evictIdle(); c.byKey["a"] == nil || c.byKey["b"] != nil {
		t.Errorf("kept: %v", c.byKey)
	}
	if c.evictIdle(); len(c.byKey) != 0 || c.bytes != 0 || c.order.Len() != 0 {
		t.Errorf("kept: %v", c.byKey)
	}
}
