package recent

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"
)

// Counters has a counter for each key, each in a window that the first count begins. Their number is bounded.
type Counters struct {
	*Map[uint64, Count]
}

// Count is a number that is valid until its window ends.
type Count struct {
	Count int32
	End   time.Time
}

// In returns the number at now, which is 0 after the window.
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

// Count returns the number of a key at now.
func (c *Counters) Count(key uint64, now time.Time) int32 {
	n, _ := c.Get(key)
	return n.In(now)
}

// Extend makes the number of a key valid until end.
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

// KeyOf returns a key for parts, which may hold any bytes, since users type some of them.
func KeyOf(parts ...string) uint64 {
	sum := sha256.Sum256(appendParts(nil, parts...))
	return binary.BigEndian.Uint64(sum[:])
}

// apart escapes the byte that ends a part, and the escape byte itself.
var apart = strings.NewReplacer("\x00", "\x01\x02", "\x01", "\x01\x01")

// appendParts appends parts so that no other parts make the same text. Parts without control characters stay as they are, each followed
// by a zero byte: stored keys were made so.
func appendParts(dst []byte, parts ...string) []byte {
	for _, p := range parts {
		dst = append(append(dst, apart.Replace(p)...), 0)
	}
	return dst
}
