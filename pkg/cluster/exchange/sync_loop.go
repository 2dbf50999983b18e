package exchange

import (
	"context"
	"time"
)

const (
	// lookEvery is how often Changed is asked, which costs nothing while nothing has changed. A member is asked when something has, every
	// busyEvery while something is done there, every idleEvery otherwise, and retryEvery after a failure.
	lookEvery  = time.Second
	busyEvery  = 2 * time.Second
	idleEvery  = 20 * time.Second
	retryEvery = 15 * time.Second
)

// Rounds bring one member up to date with what its hub wants there, again and again.
type Rounds struct {
	// Changed reports whether what Run depends on has changed on the hub since Changed was last called.
	Changed func(ctx context.Context) bool
	// Run brings the member up to date, as far as that is possible now, and reports whether something is being done there.
	Run func(ctx context.Context) (busy bool, err error)
	// Failed is told of each error of Run that says something else than the one before.
	Failed func(err error)
	Now    func() time.Time
}

// Follow keeps the member up to date until ctx ends.
func (r *Rounds) Follow(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	var next time.Time
	for told := ""; ; {
		if r.Changed(ctx) || !r.Now().Before(next) {
			busy, err := r.Run(ctx)
			if ctx.Err() != nil {
				return
			}
			wait, text := idleEvery, ""
			switch {
			case err != nil:
				wait, text = retryEvery, err.Error()
			case busy:
				wait = busyEvery
			}
			if text != "" && text != told {
				r.Failed(err)
			}
			told, next = text, r.Now().Add(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}
