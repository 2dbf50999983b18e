// Package review bounds what it costs to have tokens reviewed by another server: the answers that are cached, the reviews at a time, and
// the refusals that one address may cause. Anyone can send tokens that only the other server can tell from good ones.
package review

import (
	"crypto/sha256"
	"sync"
	"time"

	"kapis.dev/ks-apiserver/pkg/recent"
)

// Key is the hash of a token: no token itself is stored in memory.
type Key = [sha256.Size]byte

// Answer is the answer about a token, and until when it counts.
type Answer[T any] struct {
	// Whose is whom the token is of, unless Err says why it is refused, or why that is not known.
	Whose T
	Err   error
	Until time.Time
}

// Cache has answers in bounded memory. Good ones are stored apart from the others, so that no number of bad tokens makes a good one
// be reviewed again.
type Cache[T any] struct {
	mu        sync.Mutex
	good, bad *recent.Map[Key, Answer[T]]
}

// NewCache returns a cache that has up to most answers of each sort.
func NewCache[T any](most int) *Cache[T] {
	return &Cache[T]{good: recent.NewMap[Key, Answer[T]](most), bad: recent.NewMap[Key, Answer[T]](most)}
}

// Get returns the cached answer, if it still counts.
func (a *Cache[T]) Get(k Key, now time.Time) (Answer[T], bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	got, ok := a.good.Get(k)
	if !ok || !now.Before(got.Until) {
		got, ok = a.bad.Get(k)
	}
	return got, ok && now.Before(got.Until)
}

// Put caches an answer.
func (a *Cache[T]) Put(k Key, got Answer[T]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if got.Err == nil {
		a.good.Set(k, got)
		return
	}
	a.bad.Set(k, got)
}

// Len returns how many answers are cached of each sort.
func (a *Cache[T]) Len() (good, bad int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.good.Len(), a.bad.Len()
}
