package upstream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// Cached is something of a provider that is fetched when it is needed, and then kept. Those who need it at once wait for one
// fetch, which goes on where one of them goes away.
type Cached[T any] struct {
	// Fetch gets it, within Timeout.
	Fetch   func(ctx context.Context) (T, error)
	Timeout time.Duration
	// Life is how long it counts. Stale says that it counts longer where it can't be fetched.
	Life  time.Duration
	Stale bool
	// Now tells the time.
	Now func() time.Time

	group singleflight.Group
	mu    sync.Mutex
	value T
	at    time.Time // when it was fetched; zero where it was not
	tried time.Time // when a fetch was begun last
}

// Get returns what is kept, and fetches it where it is too old. Its error is that of Fetch, or idp.ErrUnavailable where ctx ends.
func (c *Cached[T]) Get(ctx context.Context) (T, error) {
	value, at, _ := c.load()
	if !at.IsZero() && c.Now().Sub(at) < c.Life {
		return value, nil
	}
	fetched, err := c.fetch(ctx)
	if err != nil && c.Stale && !at.IsZero() {
		return value, nil //nolint:nilerr // what is kept serves on; who uses it finds out whether the server is there
	}
	return fetched, err
}

// Renew fetches it anew, unless that was tried within pause: then it returns what is kept.
func (c *Cached[T]) Renew(ctx context.Context, pause time.Duration) (T, error) {
	value, at, tried := c.load()
	if !at.IsZero() && c.Now().Sub(tried) < pause {
		return value, nil
	}
	return c.fetch(ctx)
}

// Kept returns what was fetched last, however old it is, and whether anything was. It makes no call.
func (c *Cached[T]) Kept() (T, bool) {
	value, at, _ := c.load()
	return value, !at.IsZero()
}

func (c *Cached[T]) load() (value T, at, tried time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value, c.at, c.tried
}

// fetch fetches, or waits for the fetch that is under way. Where that fails, which was begun before this question, it begins another.
func (c *Cached[T]) fetch(ctx context.Context) (T, error) {
	value, shared, err := c.flight(ctx)
	if err != nil && shared && ctx.Err() == nil {
		value, _, err = c.flight(ctx)
	}
	return value, err
}

func (c *Cached[T]) flight(ctx context.Context) (value T, shared bool, err error) {
	result := c.group.DoChan("", func() (any, error) {
		c.mu.Lock()
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
