package terminal

import (
	"math"
	"net/http"
	"sync"
	"time"

	"kapis.dev/ks-apiserver/pkg/inflight"
	"kapis.dev/ks-apiserver/pkg/status"
)

// Limits are how many sessions there may be.
type Limits struct {
	// PerUser is how many sessions one user may have, and Total how many there may be. The service accounts of a namespace count as one user,
	// and all service accounts together may have half of Total: whoever may create namespaces has as many of these users as they create.
	PerUser, Total int
	// Openings is how many sessions one user may begin within Window: pages open a session again by themselves when it ends.
	Openings int
	Window   time.Duration
	// Of is what the sessions are, for messages.
	Of string
}

// PodLimits are the limits of shells in pods.
var PodLimits = Limits{PerUser: 10, Total: 500, Openings: 10, Window: 10 * time.Second, Of: "terminals"}

// NodeLimits are the limits of shells on nodes, each of which has a pod.
var NodeLimits = Limits{PerUser: 2, Total: 500, Openings: 10, Window: 10 * time.Second, Of: "shells on nodes"}

// KubectlLimits are the limits of kubectl shells.
var KubectlLimits = Limits{PerUser: 3, Total: 500, Openings: 10, Window: 10 * time.Second, Of: "kubectl shells"}

// UploadLimits and DownloadLimits are the limits of transfers of files. Each upload has a file of this server's: they are few.
var (
	UploadLimits   = Limits{PerUser: 3, Total: 10, Openings: 10, Window: 10 * time.Second, Of: "uploads"}
	DownloadLimits = Limits{PerUser: 10, Total: 100, Openings: 10, Window: 10 * time.Second, Of: "downloads"}
)

// Limiter bounds how many sessions there are. It is safe for concurrent use.
type Limiter struct {
	limits Limits
	now    func() time.Time

	mu              sync.Mutex
	total, accounts int             // accounts are those of service accounts
	users           map[string]*use // by the owner of what the user does
}

// use is what one user has.
type use struct {
	open  int
	begun []time.Time // of the last window, at most as many as there may be
}

// NewLimiter returns a Limiter.
func NewLimiter(l Limits, now func() time.Time) *Limiter {
	return &Limiter{limits: l, now: now, users: map[string]*use{}}
}

// maxUsers is how many users are remembered before those that count no more are forgotten.
const maxUsers = 1 << 10

// Enter counts a session of a user, and returns what ends it. The error is a 429 that says when to try again.
func (l *Limiter) Enter(user string) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.forget(now)
	owner := inflight.OwnerOf(user)
	u := l.users[owner]
	if u == nil {
		u = &use{}
	}
	u.trim(now, l.limits.Window)
	isAccount := inflight.IsServiceAccount(user)
	switch {
	case l.total >= l.limits.Total:
		return nil, tooMany(1, "this server has %d %s open, as many as it takes: try again", l.total, l.limits.Of)
	case u.open >= l.limits.PerUser:
		return nil, tooMany(1, "%s %d %s open, as many as one may have: close some", inflight.Has(user), u.open, l.limits.Of)
	case isAccount && l.accounts >= max(1, l.limits.Total/2):
		return nil, tooMany(1, "service accounts have %d %s open, as many as all of them together may have: try again", l.accounts, l.limits.Of)
	case len(u.begun) >= l.limits.Openings:
		wait := l.limits.Window - now.Sub(u.begun[0])
		return nil, tooMany(wait.Seconds(), "%s opened %d %s within %v, as many as one may: wait", inflight.Has(user), len(u.begun),
			l.limits.Of, l.limits.Window)
	}
	l.users[owner] = u
	l.total++
	if isAccount {
		l.accounts++
	}
	u.open++
	u.begun = append(u.begun, now)
	return sync.OnceFunc(func() { l.leave(u, isAccount) }), nil
}

func (l *Limiter) leave(u *use, isAccount bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if isAccount {
		l.accounts--
	}
	u.open--
}

// forget forgets users that count no more, if many are remembered.
func (l *Limiter) forget(now time.Time) {
	if len(l.users) < maxUsers {
		return
	}
	for name, u := range l.users {
		if u.trim(now, l.limits.Window); u.open == 0 && len(u.begun) == 0 {
			delete(l.users, name)
		}
	}
}

// trim forgets what was begun before the window.
func (u *use) trim(now time.Time, window time.Duration) {
	for len(u.begun) > 0 && now.Sub(u.begun[0]) >= window {
		u.begun = u.begun[1:]
	}
}

// Open returns how many sessions there are.
func (l *Limiter) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

func tooMany(seconds float64, format string, args ...any) error {
	return status.RetryAfter(int32(max(1, math.Ceil(seconds))), status.Errorf(http.StatusTooManyRequests, format, args...))
}
