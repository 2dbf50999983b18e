package recent

import "time"

// Counters count per key, each in a window that the first count begins. Their number is bounded.
type Counters struct {
	*Map[uint64, Count]
}

// Count is a number that counts until its window ends.
type Count struct {
	Count int32
	End   time.Time
}

// In returns what counts at now.
func (c Count) In(now time.Time) int32 {
	if now.Before(c.End) {
		return c.Count
	}
	return 0
}

// NewCounters returns counters for at most size keys.
func NewCounters(size int) *Counters {
	return &Counters{NewMap[uint64, Count](size)}
}

// Count returns what counts under a key at now.
func (c *Counters) Count(key uint64, now time.Time) int32 {
	n, _ := c.Get(key)
	return n.In(now)
}

// Extend lets the count of a key count until end.
func (c *Counters) Extend(key uint64, end time.Time) {
	n, _ := c.Get(key)
	n.End = end
	c.Set(key, n)
}

// Add counts n more, which may be negative, in a window that the first count begins.
func (c *Counters) Add(key uint64, n int32, now time.Time, window time.Duration) {
	was, _ := c.Get(key)
	if !now.Before(was.End) {
		was = Count{End: now.Add(window)}
	}
	was.Count = max(0, was.Count+n)
	c.Set(key, was)
}
