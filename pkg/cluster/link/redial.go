package link

import (
	"context"
	"math/rand/v2"
	"time"
)

// Redial says how long it is waited until a link that has ended, or was not opened, is opened again.
type Redial struct {
	// The pause doubles from Least to Most. After a link that lasted longer than Most it is Least again.
	Least, Most time.Duration
	// Jitter says that it is waited for a random part of the pause: so that many do not come at once.
	Jitter bool
}

// Keep calls open, which returns when its link has ended, again and again until ctx ends. Failed is told of each error, and whether it
// says something else than the one before.
func (d Redial) Keep(ctx context.Context, open func() error, failed func(err error, news bool)) {
	for pause, told := d.Least, ""; ctx.Err() == nil; pause = min(2*pause, d.Most) {
		begun := time.Now()
		err := open()
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > d.Most {
			pause = d.Least
		}
		if err != nil {
			news := err.Error() != told
			told = err.Error()
			failed(err, news)
		}
		wait := pause
		if d.Jitter {
			wait = rand.N(pause) + time.Millisecond //nolint:gosec // jitter is no secret
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}
