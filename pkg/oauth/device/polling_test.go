package device

import (
	"testing"
	"time"
)

// T8628-3: a device that polls too early waits five seconds longer, for this and all later polls.
func TestPollsSlowDown(t *testing.T) {
	p, now := &polls{}, startTime()
	for i, step := range []struct {
		after time.Duration
		early bool
	}{
		{0, false}, {4 * time.Second, true}, {9 * time.Second, true}, {15 * time.Second, false}, {14 * time.Second, true}, {20 * time.Second, false},
		{19 * time.Second, true},
		{25 * time.Second, false},
	} {
		now = now.Add(step.after)
		if p.early("d", now) != step.early {
			t.Errorf("poll %d, %v after the one before: early is %v", i, step.after, !step.early)
		}
	}
	for range 100 {
		p.early("d", now)
	}
	if !p.early("d", now.Add(pollLongest-time.Second)) || p.early("d", now.Add(3*pollLongest)) {
		t.Error("the pause is not bounded")
	}
	for i := range 3 * maxPolls {
		p.early(string(rune(i)), now)
	}
	if n := p.byName.Len(); n > maxPolls {
		t.Errorf("%d polls are remembered", n)
	}
}
