// Package ratelimit limits wrong guesses: of clients' secrets, of access tokens and of user codes.
package ratelimit

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"kapis.dev/ks-apiserver/pkg/recent"
)

const (
	// FailuresPerSecond is the rate of wrong client secrets and access tokens from one address. Beyond it the answer is
	// 429. Secrets are protected from guessing by their length (client.LeastSecret).
	FailuresPerSecond = 10
	// FailuresAtOnce is the burst.
	FailuresAtOnce = 100
	// Pause is the Retry-After of a 429.
	Pause = time.Second
	// maxKeys bounds the memory.
	maxKeys = 4096
)

// Kind is the kind of secret that is guessed.
type Kind uint8

// The kinds.
const (
	ClientSecret Kind = iota
	AccessToken
	UserCode
)

// Key is what wrong guesses are counted by: for a client's secret its name and the source address, for tokens the source
// address, for user codes the user's UID (as Name).
type Key struct {
	Kind         Kind
	Name, Source string
}

// Limiter counts wrong guesses by key (RFC 6749, 2.3.1; RFC 8628, 5.1). Keys have names of clients and UIDs of users that
// exist, or addresses, so that invented names can't evict others.
type Limiter struct {
	perSecond rate.Limit
	atOnce    int

	mu    sync.Mutex
	byKey *recent.Map[Key, *rate.Limiter]
}

// New returns a Limiter with a rate and a burst.
func New(perSecond rate.Limit, atOnce int) *Limiter {
	return &Limiter{perSecond: perSecond, atOnce: atOnce, byKey: recent.NewMap[Key, *rate.Limiter](maxKeys)}
}

// Exhausted reports whether a key has no guesses left now.
func (l *Limiter) Exhausted(key Key, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.byKey.Get(key)
	return ok && r.TokensAt(now) < 1
}

// Failed counts a wrong guess.
func (l *Limiter) Failed(key Key, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.byKey.Use(key)
	if !ok {
		r = rate.NewLimiter(l.perSecond, l.atOnce)
		l.byKey.Set(key, r)
	}
	r.AllowN(now, 1)
}
