package device

import (
	"sync"
	"time"
)

// polls remembers when devices polled last. Each replica counts for itself: a device that polls several is told to slow down later.
type polls struct {
	mu         sync.Mutex
	young, old map[string]poll
}

// poll is the last poll of a device, and the pause until the next one.
type poll struct {
	last     time.Time
	interval time.Duration
}

// early counts a poll, and reports whether it came too early.
func (p *polls) early(key string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, known := p.young[key]
	if !known {
		last, known = p.old[key]
	}
	next := poll{last: now, interval: max(last.interval, PollInterval)}
	early := known && now.Sub(last.last) < last.interval
	if early {
		next.interval = min(next.interval+PollInterval, pollLongest)
	}
	if _, ok := p.young[key]; p.young == nil || !ok && len(p.young) >= maxPolls/2 {
		p.old, p.young = p.young, map[string]poll{}
	}
	p.young[key] = next
	return early
}
