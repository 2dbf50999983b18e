package lockout

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
)

const (
	// mostFailures and mostKnown bound a Lockout, as its CRD does.
	mostFailures = 64
	mostKnown    = 16
	// knownFor is how long a network stays known for a user, and knownFresh the age at which that is written again: a week, so that logins
	// from usual networks hardly cost a write.
	knownFor   = 90 * 24 * time.Hour
	knownFresh = 7 * 24 * time.Hour
)

// Method is the credential of an attempt to log in.
type Method string

// The methods that are counted apart: a local password, and the code of a second factor.
const (
	Password Method = "password"
	Code     Method = "code"
)

// ByProvider returns the method of a password that a provider checks.
func ByProvider(provider string) Method { return Password + " " + Method(provider) }

// state is the content of a Lockout. It is immutable.
type state struct {
	uid     types.UID
	version string // resourceVersion; "" if there is no object
	user    string

	failures []failures
	guesses  windowCount
	codes    windowCount
	known    []knownNetwork
}

// windowCount is a number of attempts, and when the first of them was.
type windowCount struct {
	count int32
	since time.Time
}

type failures struct {
	key uint64
	windowCount
}

type knownNetwork struct {
	hash uint64
	at   time.Time
}

// in returns how many attempts count at now: all of them until the end of the window that the first began.
func (t windowCount) in(now time.Time, window time.Duration) int32 {
	if t.count <= 0 || !now.Before(t.since.Add(window)) {
		return 0
	}
	return t.count
}

// add returns the count with n more attempts; n may be negative.
func (t windowCount) add(n int32, now time.Time, window time.Duration) windowCount {
	if t.in(now, window) == 0 {
		t = windowCount{since: now}
	}
	if t.count = max(0, t.count+n); t.count == 0 {
		return windowCount{}
	}
	return t
}

func (l *state) of(key uint64) windowCount {
	if l != nil {
		for _, f := range l.failures {
			if f.key == key {
				return f.windowCount
			}
		}
	}
	return windowCount{}
}

func (l *state) total(w Method) windowCount {
	switch {
	case l == nil:
		return windowCount{}
	case w == Code:
		return l.codes
	}
	return l.guesses
}

// knows reports whether the user recently logged in from a network, and when last.
func (l *state) knows(hash uint64, now time.Time) (at time.Time, ok bool) {
	if l == nil {
		return time.Time{}, false
	}
	for _, p := range l.known {
		if p.hash == hash && now.Before(p.at.Add(knownFor)) {
			return p.at, true
		}
	}
	return time.Time{}, false
}

// full reports whether no further network can be counted apart.
func (l *state) full(now time.Time, window time.Duration) bool {
	if l == nil {
		return false
	}
	n := 0
	for _, f := range l.failures {
		if f.in(now, window) > 0 {
			n++
		}
	}
	return n >= mostFailures
}

// fail returns the state with n more failures of a key, which may be negative.
func (l *state) fail(w Method, key uint64, n int32, stranger bool, now time.Time, window time.Duration) *state {
	next := l.pruned(now, window)
	next.put(key, next.of(key).add(n, now, window))
	if stranger {
		next.count(w, n, now, window)
	}
	return next
}

// clear returns the state without the failures of a key, and with a known network if one is given.
func (l *state) clear(w Method, key uint64, stranger bool, from *uint64, now time.Time, window time.Duration) *state {
	next := l.pruned(now, window)
	if n := next.of(key).in(now, window); n > 0 && stranger {
		next.count(w, -n, now, window) // the user's own failures do not use up the budget of unknown networks
	}
	next.put(key, windowCount{})
	if from != nil {
		next.learn(*from, now)
	}
	return next
}

// pruned returns a copy without counts and networks that have expired.
func (l *state) pruned(now time.Time, window time.Duration) *state {
	next := *l
	next.failures = slices.DeleteFunc(slices.Clone(l.failures), func(f failures) bool { return f.in(now, window) == 0 })
	next.known = slices.DeleteFunc(slices.Clone(l.known), func(p knownNetwork) bool { return !now.Before(p.at.Add(knownFor)) })
	if next.guesses.in(now, window) == 0 {
		next.guesses = windowCount{}
	}
	if next.codes.in(now, window) == 0 {
		next.codes = windowCount{}
	}
	return &next
}

func (l *state) empty() bool {
	return len(l.failures) == 0 && len(l.known) == 0 && l.guesses.count == 0 && l.codes.count == 0
}

func (l *state) put(key uint64, t windowCount) {
	l.failures = slices.DeleteFunc(l.failures, func(f failures) bool { return f.key == key })
	if t.count == 0 {
		return
	}
	if l.failures = append(l.failures, failures{key, t}); len(l.failures) > mostFailures {
		oldest := 0
		for i, f := range l.failures {
			if f.since.Before(l.failures[oldest].since) {
				oldest = i
			}
		}
		l.failures = slices.Delete(l.failures, oldest, oldest+1)
	}
}

func (l *state) count(w Method, n int32, now time.Time, window time.Duration) {
	if w == Code {
		l.codes = l.codes.add(n, now, window)
		return
	}
	l.guesses = l.guesses.add(n, now, window)
}

func (l *state) learn(hash uint64, now time.Time) {
	l.known = slices.DeleteFunc(l.known, func(p knownNetwork) bool { return p.hash == hash })
	l.known = append(l.known, knownNetwork{hash, now})
	if len(l.known) > mostKnown {
		slices.SortFunc(l.known, func(a, b knownNetwork) int { return cmp.Compare(a.at.Unix(), b.at.Unix()) })
		l.known = l.known[len(l.known)-mostKnown:]
	}
}

// slide returns the state with n more failures of a key of a shared address, which may be negative. They count until a window has passed
// since the last of them.
func (l *state) slide(key uint64, n int32, now time.Time, window time.Duration) *state {
	next := l.pruned(now, window)
	t := next.of(key)
	if t.count = max(0, t.in(now, window)+n); n > 0 {
		t.since = now
	}
	next.put(key, t)
	return next
}

// taken returns the state after a success. At a shared address the failures of others stay, or each login of the user would give
// an attacker new tries.
func (a *Attempt) taken(led *state, from *uint64, now time.Time) *state {
	if !a.shared || a.known {
		return led.clear(a.way, a.key, !a.known && !a.shared, from, now, a.l.Window)
	}
	next := led.pruned(now, a.l.Window)
	if a.reserved {
		next = led.slide(a.key, -1, now, a.l.Window)
	}
	if from != nil {
		next.learn(*from, now)
	}
	return next
}

// failed returns the state with n more failures of the attempt, which may be negative.
func (a *Attempt) failed(led *state, n int32, now time.Time) *state {
	if a.shared {
		return led.slide(a.key, n, now, a.l.Window)
	}
	return led.fail(a.way, a.key, n, !a.known, now, a.l.Window)
}

// cleared returns a state after a success, with its network known if n is above 0.
func (a *Attempt) cleared(led *state, n int, now time.Time) *state {
	var from *uint64
	if n > 0 {
		from = &a.place
	}
	return a.taken(led, from, now)
}

// parseState reads a Lockout's JSON.
func parseState(raw []byte) (*state, error) {
	var o v1alpha1.Lockout
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, fmt.Errorf("read a Lockout: %w", err)
	}
	return newState(&o), nil
}

func newState(o *v1alpha1.Lockout) *state {
	l := &state{
		uid: o.UID, version: o.ResourceVersion, user: o.Spec.User,
		guesses: windowCount{o.Spec.Guesses.Count, o.Spec.Guesses.Since.Time}, codes: windowCount{o.Spec.Codes.Count, o.Spec.Codes.Since.Time},
	}
	for _, f := range o.Spec.Failures {
		if key, err := strconv.ParseUint(f.Key, 16, 64); err == nil {
			l.failures = append(l.failures, failures{key, windowCount{f.Count.Count, f.Since.Time}})
		}
	}
	for _, p := range o.Spec.Known {
		if hash, err := strconv.ParseUint(p.Place, 16, 64); err == nil {
			l.known = append(l.known, knownNetwork{hash, p.At.Time})
		}
	}
	return l
}

// object returns the Lockout of the user of that UID.
func (l *state) object(name string) *v1alpha1.Lockout {
	o := &v1alpha1.Lockout{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Lockout"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: l.uid, ResourceVersion: l.version},
		Spec:       v1alpha1.LockoutSpec{User: l.user, Guesses: l.guesses.wire(), Codes: l.codes.wire()},
	}
	for _, f := range l.failures {
		o.Spec.Failures = append(o.Spec.Failures, v1alpha1.Failures{Key: fmt.Sprintf("%016x", f.key), Count: f.wire()})
	}
	for _, p := range l.known {
		o.Spec.Known = append(o.Spec.Known, v1alpha1.KnownPlace{Place: fmt.Sprintf("%016x", p.hash), At: metav1.NewTime(p.at)})
	}
	return o
}

func (t windowCount) wire() v1alpha1.Count {
	if t.count == 0 {
		return v1alpha1.Count{}
	}
	return v1alpha1.Count{Count: t.count, Since: metav1.NewTime(t.since)}
}
