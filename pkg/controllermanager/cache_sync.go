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
	// fillWait is how long a start waits for all kinds in the cache together.
	fillWait = 30 * time.Second
	// kindWait is how long a controller waits for its own kinds, in effect for good: when this is over the whole program ends.
	kindWait = 100 * 365 * 24 * time.Hour
)

// boundedCache waits for all its kinds together up to a deadline. controller-runtime has each controller wait for every kind in the cache,
// so one that can't be listed, such as one whose conversion webhook is gone, would hold up all of them and the readiness. From then on
// each controller waits for the kinds that it watches, and each read for the kind that it reads.
type boundedCache struct {
	cache.Cache
	wait     time.Duration
	begun    sync.Once
	told     sync.Once
	deadline time.Time // wait after the first WaitForCacheSync
}

// newBoundedCache returns what makes the manager's cache.
func newBoundedCache(wait time.Duration) cache.NewCacheFunc {
	return func(rc *rest.Config, o cache.Options) (cache.Cache, error) {
		c, err := cache.New(rc, o)
		if err != nil {
			return nil, err
		}
		return &boundedCache{Cache: c, wait: wait}, nil
	}
}

// WaitForCacheSync implements cache.Cache. It returns true when all kinds are loaded or the deadline is over, and false if ctx ends before.
func (c *boundedCache) WaitForCacheSync(ctx context.Context) bool {
	c.begun.Do(func() { c.deadline = time.Now().Add(c.wait) })
	limited, cancel := context.WithDeadline(ctx, c.deadline)
	defer cancel()
	if limited.Err() == nil && !c.Cache.WaitForCacheSync(limited) && ctx.Err() == nil {
		c.told.Do(func() {
			klog.InfoS("Some kinds are not loaded yet: controllers that need them wait, the others work", "waited", c.wait)
		})
	}
	return ctx.Err() == nil
}
