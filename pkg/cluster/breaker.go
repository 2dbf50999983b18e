package cluster

import "time"

const (
	// failuresAtMost is how many requests in a row may fail on the way to a member before it is spared.
	failuresAtMost = 5
	// leastOpen and mostOpen are how long a member is spared before one request tries whether it is there again.
	leastOpen, mostOpen = time.Second, 15 * time.Second
)

// breaker spares a member whose links fail each request, and the callers, who would wait for it. Only failures of the way count: an answer
// is one, whatever its code, and so is none within the time that the caller has.
type breaker struct {
	failures int
	pause    time.Duration
	until    time.Time
}

// isOpen reports whether requests are to be refused.
func (b *breaker) isOpen(now time.Time) bool {
	return b.failures >= failuresAtMost && now.Before(b.until)
}

// enter reports whether a request may be sent. Where the breaker is open, one may when its pause is over.
func (b *breaker) enter(now time.Time) bool {
	switch {
	case b.failures < failuresAtMost:
		return true
	case now.Before(b.until):
		return false
	}
	b.until = now.Add(b.pause)
	return true
}

// failed counts a failure.
func (b *breaker) failed(now time.Time) {
	if b.failures++; b.failures < failuresAtMost {
		return
	}
	b.pause = min(max(2*b.pause, leastOpen), mostOpen)
	b.until = now.Add(b.pause)
}

// succeeded closes it.
func (b *breaker) succeeded() { *b = breaker{} }
