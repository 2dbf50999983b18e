package exchange

import "time"

// retryMost is the longest wait of what a member refuses again and again.
const retryMost = 5 * time.Minute

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
