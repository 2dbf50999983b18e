package extension

import (
	"sync"
	"time"
)

const (
	// breakerFailures within breakerWindow open a breaker.
	breakerFailures = 5
	breakerWindow   = 10 * time.Second
	// breakerLongest is the longest pause between two trials; the first is a second, and each next one twice as long.
	breakerLongest = 30 * time.Second
)

// breaker keeps requests from a backend that can't be connected to, so that nobody waits for it. After a pause one request is a trial.
type breaker struct {
	mu     sync.Mutex
	failed []time.Time // the newest, at most breakerFailures
	pause  time.Duration
	until  time.Time // of an open breaker
	trying bool
}

// enter returns 0 for a request that may go to the backend, with whether it is the trial, and otherwise how long until the next one.
func (b *breaker) enter(now time.Time) (wait time.Duration, trial bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.pause == 0:
		return 0, false
	case now.Before(b.until):
		return b.until.Sub(now), false
	case b.trying:
		return time.Second, false
	}
	b.trying = true
	return 0, true
}

// left ends a request whose backend was neither reached nor out of reach: its client has gone, or it was never sent.
func (b *breaker) left() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
}

// worked notes that the backend answers, whatever the answer is.
func (b *breaker) worked() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed, b.pause, b.trying = b.failed[:0], 0, false
}

// broke notes that the backend could not be connected to, or did not begin to answer in time. What was sent before the breaker opened says
// nothing new: else those that waited together would make the first pause the longest.
func (b *breaker) broke(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pause > 0 && now.Before(b.until) {
		return
	}
	b.trying = false
	if b.pause > 0 {
		b.pause = min(2*b.pause, breakerLongest)
		b.until = now.Add(b.pause)
		return
	}
	if b.failed = append(b.failed, now); len(b.failed) > breakerFailures {
		b.failed = b.failed[1:]
	}
	if len(b.failed) == breakerFailures && now.Sub(b.failed[0]) <= breakerWindow {
		b.failed, b.pause, b.until = b.failed[:0], time.Second, now.Add(time.Second)
	}
}
