package lockout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/crdclient"
	"kapis.dev/ks-apiserver/pkg/recent"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

const (
	// freeAtOnce bounds the attempts on one name from a known network, or from a shared address without a failure of that name, that run at once
	// without being counted first: the login of somebody who knows the password then writes nothing. From any other network an attempt is
	// counted before it is made, and one runs at a time.
	freeAtOnce = 2
	// mostWaiting bounds the attempts that wait for others.
	mostWaiting = 64
	// passwordBudget and codeBudget, times the tries, are how many guesses all unknown networks have together.
	passwordBudget = 10
	codeBudget     = 2
	// sprayMost bounds the failures from one network on any names within sprayWindow. Users behind one proxy who log in from there are known,
	// and not held up.
	sprayMost   = 100
	sprayWindow = time.Minute
	// strangersSize is how many names without a user, and sourcesSize how many networks have their failures remembered.
	strangersSize = 64 << 10
	sourcesSize   = 16 << 10
	// stripes is the number of locks for writes of Lockouts, so that different users' are written in parallel.
	stripes = 64
	// writeTimeout bounds a write that an attempt waits for; after a failed one none is tried for writePause.
	writeTimeout = 2 * time.Second
	writePause   = 5 * time.Second
	// settleQueue bounds the writes that wait to be done after successful logins.
	settleQueue = 1024
)

// Options are what a Limiter works with.
type Options struct {
	API   crdclient.API[*v1alpha1.Lockout]
	Users *iam.UserIndex
	// Tries is how many wrong passwords one network has for one user within Window.
	Tries  int
	Window time.Duration
	// Visited reports whether the user of that UID has a session from a source; nil for never.
	Visited func(uid, source string) bool
	// Synced reports whether all users are loaded; nil for always.
	Synced func() bool
	Now    func() time.Time
	// Metrics is where the counters are registered; nil for nowhere.
	Metrics prometheus.Registerer
}

// Limiter refuses attempts to log in after too many failures. It is a store.Sink of lockouts.session.kapis.dev/v1alpha1. See the package's
// documentation for how it counts.
type Limiter struct {
	Options

	mu     sync.Mutex
	byUser map[string]*state // UID of the user
	gates  map[uint64]*queue
	// local counts for users whose Lockout could not be written, strangers for names without a user. They are separate, so that made-up
	// names evict no user's count.
	local, strangers *recent.Counters
	sources          *recent.Counters
	recent           *recent.Counters            // pairs of users and networks with a login here
	shared           *recent.Counters            // addresses that many users log in from
	first            *recent.Map[uint64, uint64] // by address that is not shared: a user who has logged in from it
	down             time.Time

	stripe  [stripes]chan struct{}
	settles chan pendingWrite
	refused *prometheus.CounterVec
	writes  *prometheus.CounterVec
}

// queue lets the attempts of one method, name and network run a few at a time.
type queue struct {
	busy, waiting int
	wake          chan struct{}
}

// New returns a Limiter that knows of no failures yet.
func New(o Options) (*Limiter, error) {
	if o.Tries < 1 || o.Window <= 0 {
		return nil, fmt.Errorf("limit wrong passwords: %d in %v is no limit", o.Tries, o.Window)
	}
	l := &Limiter{
		Options: o, byUser: map[string]*state{}, gates: map[uint64]*queue{},
		local: recent.NewCounters(strangersSize), strangers: recent.NewCounters(strangersSize),
		sources: recent.NewCounters(sourcesSize), recent: recent.NewCounters(strangersSize),
		shared: recent.NewCounters(sourcesSize), first: recent.NewMap[uint64, uint64](sourcesSize),
		settles: make(chan pendingWrite, settleQueue),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ks_lockout_refusals_total", Help: "Attempts to log in that were refused unseen, by what was used up."}, []string{"of"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ks_lockout_writes_total", Help: "Changes of Lockouts, by what came of them."}, []string{"result"}),
	}
	for i := range l.stripe {
		l.stripe[i] = make(chan struct{}, 1)
	}
	if o.Metrics != nil {
		for _, c := range []prometheus.Collector{l.refused, l.writes} {
			if err := o.Metrics.Register(c); err != nil {
				return nil, fmt.Errorf("register metrics of lockouts: %w", err)
			}
		}
	}
	return l, nil
}

var _ store.Sink = (*Limiter)(nil)

// Set stores the counts of a user, as another replica may have written them.
func (l *Limiter) Set(o *store.Object) {
	next, err := parseState(o.Raw)
	if err != nil {
		klog.ErrorS(err, "A Lockout is left out", "lockout", o.Name)
		return
	}
	l.put(o.Name, next)
}

// Delete removes the counts of a user.
func (l *Limiter) Delete(_, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byUser, name)
}

// Begin admits an attempt, or refuses it with ErrLimited, ErrBusy, or the error of a ctx that ended while it waited.
func (l *Limiter) Begin(ctx context.Context, w Method, u *iam.User, name string, o iam.Origin) (*Attempt, error) {
	at, source := request.NetworkOf(o.Source), o.Source
	a := &Attempt{l: l, User: u, way: w, key: recent.KeyOf(string(w), at), place: recent.KeyOf("place", at),
		source: recent.KeyOf("source", at)}
	who := "name " + name
	if u != nil {
		who = "user " + u.UID
		a.visited = l.Visited != nil && source != "" && l.Visited(u.UID, source)
	}
	a.id, a.all = recent.KeyOf(string(w), who, at), recent.KeyOf(string(w), who)
	a.recent = a.id
	l.share(a, who, at, o)
	if err := l.waitForTurn(ctx, a); err != nil {
		return nil, err
	}
	if a.free {
		return a, nil
	}
	if err := l.reserve(ctx, a); err != nil {
		l.leave(a)
		return nil, err
	}
	return a, nil
}

// waitForTurn waits until the attempt may run among those of its name and network.
func (l *Limiter) waitForTurn(ctx context.Context, a *Attempt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if err := l.check(a); err != nil {
			return err
		}
		g := l.gates[a.id]
		if g == nil {
			g = &queue{wake: make(chan struct{})}
			l.gates[a.id] = g
		}
		if g.busy == 0 || a.free && g.busy < freeAtOnce {
			g.busy++
			return nil
		}
		if g.waiting >= mostWaiting {
			return iam.ErrBusy
		}
		if err := l.wait(ctx, a, g); err != nil {
			return err
		}
	}
}

// wait releases the lock until another attempt is over.
func (l *Limiter) wait(ctx context.Context, a *Attempt, g *queue) error {
	g.waiting++
	wake := g.wake
	l.mu.Unlock()
	var err error
	select {
	case <-wake:
	case <-ctx.Done():
		err = fmt.Errorf("wait for other logins of the same user: %w", ctx.Err())
	}
	l.mu.Lock()
	g.waiting--
	l.drop(a, g)
	return err
}

// leave lets the next attempt run.
func (l *Limiter) leave(a *Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.gates[a.id]
	g.busy--
	close(g.wake)
	g.wake = make(chan struct{})
	l.drop(a, g)
}

func (l *Limiter) drop(a *Attempt, g *queue) {
	if g.busy == 0 && g.waiting == 0 && l.gates[a.id] == g {
		delete(l.gates, a.id)
	}
}

// check returns nil if the known counts allow the attempt. The lock is held.
func (l *Limiter) check(a *Attempt) error {
	now := l.Now()
	var led *state
	if a.User != nil {
		led = l.byUser[a.User.UID]
	}
	if a.User != nil && !a.shared {
		_, noted := led.knows(a.place, now)
		a.known = noted || a.visited || l.recent.Count(a.recent, now) > 0
	}
	counts := l.counts(a)
	own, _ := counts.Get(a.id)
	local := own.In(now)
	if err := l.checkCounts(led, a, own, counts.Count(a.all, now), now); err != nil {
		return err
	}
	if !a.known && l.sources.Count(a.source, now) >= sprayMost {
		return l.limited("source")
	}
	a.free = (a.known || a.shared) && local+led.of(a.key).in(now, l.Window) == 0
	return nil
}

// counts returns the counters in memory that an attempt belongs to.
func (l *Limiter) counts(a *Attempt) *recent.Counters {
	if a.User == nil {
		return l.strangers
	}
	return l.local
}

// checkCounts returns nil if the counts of the Lockout, and those in memory on top of them, allow the attempt.
func (l *Limiter) checkCounts(led *state, a *Attempt, local recent.Count, localAll int32, now time.Time) error {
	if a.shared {
		return l.throttle(a, led, local, now)
	}
	own := local.In(now) + led.of(a.key).in(now, l.Window)
	if own >= int32(l.Tries) {
		return l.limited("place")
	}
	if a.known {
		return nil
	}
	budget := int32(l.Tries * passwordBudget)
	if a.way == Code {
		budget = int32(l.Tries * codeBudget)
	}
	if localAll+led.total(a.way).in(now, l.Window) >= budget || own == 0 && led.full(now, l.Window) {
		return l.limited("user")
	}
	return nil
}

func (l *Limiter) limited(what string) error {
	l.refused.WithLabelValues(what).Inc()
	return iam.ErrLimited
}

// reserve counts the attempt before it is made.
func (l *Limiter) reserve(ctx context.Context, a *Attempt) error {
	if a.User != nil {
		err := l.change(ctx, a.User.UID, a.User.Name, func(led *state, now time.Time) (*state, error) {
			if err := l.checkCounts(led, a, recent.Count{}, 0, now); err != nil {
				return nil, err
			}
			return a.failed(led, 1, now), nil
		})
		if err == nil || errors.Is(err, iam.ErrLimited) {
			a.reserved = err == nil
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(a); err != nil { // others may have been counted since
		return err
	}
	a.local, a.free = true, false
	l.add(a, 1)
	return nil
}

// remember counts a failure in memory.
func (l *Limiter) remember(a *Attempt, n int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(a, n)
}

func (l *Limiter) add(a *Attempt, n int32) {
	now, counts := l.Now(), l.counts(a)
	counts.Add(a.id, n, now, l.Window)
	if a.shared {
		if n > 0 {
			counts.Extend(a.id, now.Add(l.Window))
		}
		return
	}
	if !a.known {
		counts.Add(a.all, n, now, l.Window)
	}
}

// Attempt is an admitted attempt. The caller ends it by one of Fail, Succeed and Cancel.
type Attempt struct {
	l    *Limiter
	User *iam.User // nil if no user has the name
	way  Method
	// id is the hash of the method, name and network, and all the same without the network, for counts in memory; key is
	// the hash of the method and the network.
	id, all, key  uint64
	place, source uint64
	// recent is the user and the network of recent successes, and at the address alone; 0 for none.
	recent, at uint64
	visited    bool
	// free says that the attempt is counted only if it fails.
	known, free bool
	// shared says that many users log in from the address.
	shared bool
	// reserved says that it is counted in the Lockout already, local that it is in memory.
	reserved, local bool
}

// Fail ends an attempt that failed.
func (a *Attempt) Fail(ctx context.Context) {
	defer a.l.leave(a)
	a.l.mu.Lock()
	if !a.known {
		a.l.sources.Add(a.source, 1, a.l.Now(), sprayWindow)
	}
	a.l.mu.Unlock()
	if !a.free {
		return
	}
	if a.User == nil {
		a.l.remember(a, 1)
		return
	}
	if err := a.l.change(ctx, a.User.UID, a.User.Name, func(led *state, now time.Time) (*state, error) {
		return a.failed(led, 1, now), nil
	}); err != nil {
		a.l.remember(a, 1)
	}
}

// Cancel ends an attempt whose password could not be checked.
func (a *Attempt) Cancel() {
	defer a.l.leave(a)
	switch {
	case a.local:
		a.l.remember(a, -1)
	case a.reserved:
		a.l.settle(pendingWrite{a, -1})
	}
}

// Succeed ends an attempt that was right; complete says that the login needs nothing more, so that the network is known from now on. It
// fails with ErrLimited if other attempts have used up the tries meanwhile: too many uncounted attempts may have run at once, and the
// right one must look like the others.
func (a *Attempt) Succeed(complete bool) error {
	l := a.l
	defer l.leave(a)
	l.mu.Lock()
	now := l.Now()
	led := l.byUser[a.User.UID]
	at, noted := led.knows(a.place, now)
	own := led.of(a.key).in(now, l.Window)
	if a.free && !a.shared && own+l.local.Count(a.id, now) >= int32(l.Tries) {
		l.mu.Unlock()
		return l.limited("place")
	}
	switch {
	case a.shared && !a.known && a.local:
		l.add(a, -1)
	case !a.shared || a.known:
		l.local.Delete(a.id)
	}
	if complete {
		l.succeeded(a, now)
	}
	learns := complete && a.recent != 0
	if learns {
		l.recent.Add(a.recent, 1, now, knownFresh)
	}
	n := 0
	if learns && (!noted || now.Sub(at) >= knownFresh) {
		n = 1
	}
	write := n > 0 || a.reserved || own > 0
	if write && led != nil { // counts here at once, and is written in the background
		l.byUser[a.User.UID] = a.cleared(led, n, now)
	}
	l.mu.Unlock()
	if write {
		l.settle(pendingWrite{a, n})
	}
	return nil
}

// An address from which many users log in, such as the console's, does not say which of them tries. It locks no one out, since it
// would lock out all of them: after the tries, each further one is delayed by seconds, and a user whose own computer is known does
// not wait for other people's attempts.
