package upstream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// Cached is a value of a provider that is fetched when it is first needed, and then cached. Concurrent callers wait for one
// fetch, which goes on if one of them leaves.
type Cached[T any] struct {
	// Fetch fetches the value, within Timeout.
	Fetch   func(ctx context.Context) (T, error)
	Timeout time.Duration
	// Life is how long the value is valid. Stale says that it stays valid longer while it can't be fetched.
	Life  time.Duration
	Stale bool
	// Now returns the time.
	Now func() time.Time

	group singleflight.Group
	mu    sync.Mutex
	value T
	at    time.Time // when it was fetched; zero for never
	tried time.Time // when the last fetch began
}

// Get returns the cached value, and fetches it if it is too old. Its error is that of Fetch, or idp.ErrUnavailable if ctx ends.
func (c *Cached[T]) Get(ctx context.Context) (T, error) {
	value, at, _ := c.load()
	if !at.IsZero() && c.Now().Sub(at) < c.Life {
		return value, nil
	}
	fetched, err := c.fetch(ctx, at)
	if err != nil && c.Stale && !at.IsZero() {
		return value, nil //nolint:nilerr // what is kept serves on; who uses it finds out whether the server is there
	}
	return fetched, err
}

// Renew fetches the value again, unless that was tried within pause: then it returns the cached one.
func (c *Cached[T]) Renew(ctx context.Context, pause time.Duration) (T, error) {
	value, at, tried := c.load()
	if !at.IsZero() && c.Now().Sub(tried) < pause {
		return value, nil
	}
	return c.fetch(ctx, at)
}

// Kept returns the value that was fetched last, however old it is, and whether there is one. It makes no call.
func (c *Cached[T]) Kept() (T, bool) {
	value, at, _ := c.load()
	return value, !at.IsZero()
}

func (c *Cached[T]) load() (value T, at, tried time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value, c.at, c.tried
}

// fetch fetches the value that the caller saw to be of a time, or waits for a running fetch. If that one fails and began before this call,
// it begins another.
func (c *Cached[T]) fetch(ctx context.Context, seen time.Time) (T, error) {
	value, shared, err := c.flight(ctx, seen)
	if err != nil && shared && ctx.Err() == nil {
		value, _, err = c.flight(ctx, seen)
	}
	return value, err
}

func (c *Cached[T]) flight(ctx context.Context, seen time.Time) (value T, shared bool, err error) {
	result := c.group.DoChan("", func() (any, error) {
		c.mu.Lock()
		if value := c.value; !c.at.Equal(seen) { // a fetch ended after the caller looked
			c.mu.Unlock()
			return value, nil
		}
		c.tried = c.Now()
		c.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Timeout)
		defer cancel()
		value, err := c.Fetch(ctx)
		if err == nil {
			c.mu.Lock()
			c.value, c.at = value, c.Now()
			c.mu.Unlock()
		}
		return value, err
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return value, r.Shared, r.Err
		}
		return r.Val.(T), r.Shared, nil
	case <-ctx.Done():
		return value, false, fmt.Errorf("%w: it did not answer in time", idp.ErrUnavailable)
	}
}
