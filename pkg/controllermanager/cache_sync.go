package controllermanager

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

const (
	// fillWait is how long a start waits for all kinds in the cache together, and readyWait how long the readiness does: kinds that only
	// take long are read by webhooks, and the replica before this one answers meanwhile.
	fillWait  = 30 * time.Second
	readyWait = 5 * time.Minute
	// kindWait is how long a controller waits for its own kinds, in effect for good: when this is over the whole program ends.
	kindWait = 100 * 365 * 24 * time.Hour
)

// boundedCache waits for all its kinds together up to a deadline. controller-runtime has each controller wait for every kind in the cache,
// so one that can't be listed, such as one whose conversion webhook is gone, would hold up all of them and the readiness. From then on
// each controller waits for the kinds that it watches, and each read for the kind that it reads.
type boundedCache struct {
	cache.Cache
	wait, readyWait time.Duration

	begun sync.Once
	told  sync.Once
	since time.Time // of the first wait
}

// newBoundedCache returns what makes the manager's cache.
func newBoundedCache(wait, readyWait time.Duration) cache.NewCacheFunc {
	return func(rc *rest.Config, o cache.Options) (cache.Cache, error) {
		c, err := cache.New(rc, o)
		if err != nil {
			return nil, err
		}
		return &boundedCache{Cache: c, wait: wait, readyWait: readyWait}, nil
	}
}

// WaitForCacheSync implements cache.Cache. It returns true when all kinds are loaded or wait is over, and false if ctx ends before.
func (c *boundedCache) WaitForCacheSync(ctx context.Context) bool {
	if !c.loaded(ctx, c.wait) && ctx.Err() == nil {
		c.told.Do(func() {
			klog.InfoS("Some kinds are not loaded yet: controllers that need them wait, the others work", "waited", c.wait)
		})
	}
	return ctx.Err() == nil
}

// ready reports whether all kinds are loaded, or readyWait is over.
func (c *boundedCache) ready(ctx context.Context) bool {
	return c.loaded(ctx, c.readyWait) || ctx.Err() == nil
}

// loaded waits until all kinds are loaded, and returns false where a time since the first wait is over, or ctx ends.
func (c *boundedCache) loaded(ctx context.Context, within time.Duration) bool {
	c.begun.Do(func() { c.since = time.Now() })
	limited, cancel := context.WithDeadline(ctx, c.since.Add(within))
	defer cancel()
	return limited.Err() == nil && c.Cache.WaitForCacheSync(limited)
}
