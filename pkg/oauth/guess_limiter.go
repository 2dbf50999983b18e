package oauth

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// failuresPerSecond and failuresAtOnce are how many wrong secrets of one client from one address, and bad tokens of one
	// address, are answered as what they are. What keeps a secret from being guessed is its length (leastSecret).
	failuresPerSecond = 10
	failuresAtOnce    = 100
	limitPause        = time.Second
	// limited bounds the memory.
	limited = 4096
)

// guessKind is what somebody guesses at.
type guessKind uint8

const (
	guessedSecret guessKind = iota
	guessedToken
	guessedCode
)

// limitKey is who guesses at what: of a client's secret its name and where the guess comes from, of tokens where it comes from,
// of user codes the UID of the user. It is compared by value, so that no name of a client is another limit.
type limitKey struct {
	what         guessKind
	name, source string
}

// limiter slows guessing down, of clients' secrets (RFC 6749, 2.3.1) and of user codes (RFC 8628, 5.1). Keys hold names of
// clients and UIDs of users that exist, or addresses, so that made-up names push nobody out.
type limiter struct {
	perSecond  rate.Limit
	atOnce     int
	mu         sync.Mutex
	young, old map[limitKey]*rate.Limiter
}

func newLimiter(perSecond rate.Limit, atOnce int) *limiter {
	return &limiter{perSecond: perSecond, atOnce: atOnce, young: map[limitKey]*rate.Limiter{}}
}

func (l *limiter) exhausted(key limitKey, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.young[key]
	if r == nil {
		r = l.old[key]
	}
	return r != nil && r.TokensAt(now) < 1
}

func (l *limiter) failed(key limitKey, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.young[key]
	if r == nil {
		if r = l.old[key]; r == nil {
			r = rate.NewLimiter(l.perSecond, l.atOnce)
		}
		if len(l.young) >= limited/2 {
			l.old, l.young = l.young, map[limitKey]*rate.Limiter{}
		}
		l.young[key] = r
	}
	r.AllowN(now, 1)
}
