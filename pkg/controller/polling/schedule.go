// Package polling decides when a repository is read again, and keeps what a controller remembers of its last read.
package polling

import (
	"math/rand/v2"
	"time"
)

// firstRetry is the pause after a read that failed; it doubles up to the interval.
const firstRetry = time.Minute

// Turn is when something is read again. The zero value is at once for an interval, and never without one.
type Turn struct {
	// Next is the time of the next read, zero for none that anybody knows of.
	Next time.Time
	// Failures is how often in a row the reads have failed.
	Failures int
}

// Done records a read, and returns the time until the next one; 0 is for never, where the interval is 0. Reads are spread over a tenth of
// the interval, so that those of many repositories do not meet. After a failure the next one is sooner.
func (t *Turn) Done(now time.Time, interval time.Duration, failed bool) time.Duration {
	wait := interval + time.Duration(rand.Float64()*0.1*float64(interval)) //nolint:gosec // it spreads reads, and is no secret
	if failed {
		wait = min(interval, firstRetry<<min(t.Failures, 10))
		t.Failures++
	} else {
		t.Failures = 0
	}
	t.Next = time.Time{}
	if interval > 0 {
		t.Next = now.Add(wait)
	}
	return wait
}

// Due reports whether the time of the next read has come. Without one, it never comes.
func (t *Turn) Due(now time.Time) bool { return !t.Next.IsZero() && !now.Before(t.Next) }

// Wait returns the time until the next read, at least a second; 0 is for none.
func (t *Turn) Wait(now time.Time) time.Duration {
	if t.Next.IsZero() {
		return 0
	}
	return max(t.Next.Sub(now), time.Second)
}
