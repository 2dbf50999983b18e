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
	// retryMost is the longest wait of what a member refuses again and again.
	retryMost = 5 * time.Minute
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

// Refusals are why things could not be sent to a member, by their names, until they are tried again: after retryEvery, and then less and
// less often, every retryMost at last. They are used by one goroutine.
type Refusals struct {
	Now func() time.Time

	byName map[string]refusal
}

// refusal is why what has a hash could not be sent, and when it is tried again.
type refusal struct {
	hash, reason string
	again        time.Time
	wait         time.Duration
}

// Of returns why what has a hash could not be sent, and whether it is too early to try it again.
func (r *Refusals) Of(name, hash string) (reason string, early bool) {
	was, ok := r.byName[name]
	if !ok || was.hash != hash || !r.Now().Before(was.again) {
		return "", false
	}
	return was.reason, true
}

// Add notes that what has a hash could not be sent. After several times in a row it is tried less often.
func (r *Refusals) Add(name, hash, reason string) {
	wait := retryEvery
	if was, ok := r.byName[name]; ok && was.hash == hash {
		wait = min(2*was.wait, retryMost)
	}
	if r.byName == nil {
		r.byName = map[string]refusal{}
	}
	r.byName[name] = refusal{hash, reason, r.Now().Add(wait), wait}
}

// Forget forgets why something could not be sent: it was, or it is not wanted any more.
func (r *Refusals) Forget(name string) { delete(r.byName, name) }
