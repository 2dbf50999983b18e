package device

import (
	"sync"
	"time"

	"kapis.dev/ks-apiserver/pkg/recent"
)

// polls remembers when devices polled last. Each replica counts for itself: a device that polls several is told to slow down later.
type polls struct {
	mu     sync.Mutex
	byName *recent.Map[string, poll]
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
	if p.byName == nil {
		p.byName = recent.NewMap[string, poll](maxPolls)
	}
	last, known := p.byName.Get(key)
	next := poll{last: now, interval: max(last.interval, PollInterval)}
	early := known && now.Sub(last.last) < last.interval
	if early {
		next.interval = min(next.interval+PollInterval, pollLongest)
	}
	p.byName.Set(key, next)
	return early
}
