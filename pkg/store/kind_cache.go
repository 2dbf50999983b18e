package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store/feed"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// held is how long an attempt must last for the pause after it to be the shortest one again.
const held = time.Minute

var (
	errRestart = errors.New("a sink was added")
	errStalled = errors.New("nothing arrived, and the initial list is not complete")
	errSlow    = errors.New("the initial list took too long")
	// errIncomplete is why something may exist that is not cached.
	errIncomplete = errors.New("not complete yet")
)

// cache holds one kind: it runs the reflector, feeds the sinks and owns the collection.
type cache struct {
	gvr       schema.GroupVersionResource
	namespace string // set where only the objects of one namespace are cached
	source    feed.ListWatcher
	meter     feed.Meter
	coll      *index.Collection
	clock     clock.WithTicker
	age       func() int64 // Store.age
	stall     time.Duration
	kick      chan struct{} // ends a pause
	refused   error         // stands for a kind or a namespace that is too large, and why; see Store.refuse
	size      atomic.Int64  // bytes of the objects, where they are bounded
	unchecked atomic.Int64  // bytes that arrived since they were compared with Options.MemoryBytes
	arriving  atomic.Int64  // bytes of objects that were read and are not in the collection yet
	changed   func()        // is called when sinks were told something

	cancel   context.CancelFunc
	done     chan struct{} // closed when run has returned
	synced   chan struct{} // closed when the first list is complete
	syncOnce sync.Once
	lastUsed atomic.Int64 // seconds of Store.age; 0 for a cache that feeds
	watchers atomic.Int64

	mu      sync.Mutex
	sinks   []*subscriber
	restart context.CancelCauseFunc // ends the attempt that runs
	err     error                   // the last failure, nil after a success
	since   time.Time               // of err
	failure time.Time               // when the last failure was
	current bool                    // the attempt that runs has a complete list
}

// The watchdog checks several times within each of its limits.
const (
	parts = 4
	// maxListParts bounds an initial list that never stops sending data.
	maxListParts = 10 * parts
	// maxSilentParts is after how much silence a watch is reopened. kube-apiserver sends a bookmark every minute, and a
	// connection may be dead without a sign.
	maxSilentParts = 4 * parts
)

// run lists and watches the kind until ctx ends.
func (c *cache) run(ctx context.Context) {
	defer close(c.done)
	pause := feed.FirstPause
	for ctx.Err() == nil {
		began := c.clock.Now()
		err := c.attempt(ctx)
		if errors.Is(err, errRestart) {
			continue
		}
		long := c.clock.Since(began) > held
		if long {
			pause = feed.FirstPause
		}
		// A server that does not send the bookmark at the end of the initial events is sent a list request instead. After
		// some time streaming is tried again.
		if stuck := errors.Is(err, errStalled) || errors.Is(err, errSlow); stuck || long {
			c.source.NoWatchList = stuck
		}
		klog.V(2).InfoS("Following a kind was interrupted", "resource", c.gvr.String(), "again", pause, "err", err)
		select {
		case <-ctx.Done():
		case <-c.kick:
		case <-c.clock.After(wait.Jitter(pause, 0.5)):
		}
		pause = min(2*pause, feed.LastPause)
	}
}

// attempt lists and watches until that fails. The error says why it ended, nil for an ordinary end.
func (c *cache) attempt(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.mu.Lock()
	c.restart = cancel
	c.mu.Unlock()

	watched := make(chan struct{})
	defer func() { <-watched }()
	go func() {
		defer close(watched)
		c.watchdog(ctx, cancel)
	}()
	r := toolscache.NewReflectorWithOptions(&c.source, nil, intake{c}, toolscache.ReflectorOptions{
		Name:            c.gvr.String(),
		TypeDescription: c.gvr.String(),
		Backoff:         &wait.Backoff{Duration: feed.FirstPause, Factor: 2, Steps: 4, Cap: 4 * feed.FirstPause},
		Clock:           c.clock,
	})
	err := r.ListAndWatchWithContext(ctx)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if errors.Is(err, errStalled) || errors.Is(err, errSlow) {
		c.failed(fmt.Errorf("list %s: %w", c.gvr.Resource, err))
	}
	cancel(nil)
	c.mu.Lock()
	c.current = false // what comes is known after the next list, be it that the last event was a bookmark
	c.mu.Unlock()
	return err
}

// watchdog ends an attempt whose first list is not complete while nothing arrives, or takes too long. Once a list is
// complete, it ends requests and watches that hang, which are then tried again.
func (c *cache) watchdog(ctx context.Context, cancel context.CancelCauseFunc) {
	seen, still := c.meter.Bytes.Load(), 0
	tick := c.clock.NewTicker(c.stall / parts)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
		still++
		if p := c.meter.Bytes.Load(); p != seen {
			seen, still = p, 0
		}
		switch current := c.isCurrent(); {
		case !current && still >= parts:
			cancel(errStalled)
		case !current && n >= maxListParts:
			cancel(errSlow)
		case current && (still >= maxSilentParts || still >= parts && c.source.Opening()):
			c.source.Abort(feed.ErrSilent)
			still = 0
		}
	}
}

// retry ends the pause after a failed attempt.
func (c *cache) retry() {
	if c.lastError() == nil {
		return
	}
	select {
	case c.kick <- struct{}{}:
	default: // a retry is already pending
	}
}

func (c *cache) isCurrent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// known reports whether a list must not go back to an older state: one was published, or there are sinks, since another
// process may have acted on newer rights and sessions.
func (c *cache) known() bool { return c.coll.Snapshot() != nil || c.hasSinks() }

// failed records why the kind can't be watched.
func (c *cache) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = c.clock.Now()
	if c.err == nil {
		c.since = c.failure
	}
	c.err = err
}

// succeeded records that the kind is up to date.
func (c *cache) succeeded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.since, c.current = nil, time.Time{}, true
}

// opened records that a watch continues, so that nothing was missed: after a complete list that clears a failure.
func (c *cache) opened() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current {
		c.err, c.since = nil, time.Time{}
	}
}

// lastError returns the last failure, nil while the kind is up to date.
func (c *cache) lastError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// behind returns why kube-apiserver may have objects that are not cached, nil while the kind is up to date.
func (c *cache) behind() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && !c.current {
		return errIncomplete
	}
	return c.err
}

// usable returns c, or an error where c only stands for a kind or a namespace that is too large.
func (c *cache) usable() (*cache, error) {
	switch {
	case c.refused == nil:
		return c, nil
	case c.namespace != "":
		return nil, tooLarge(cacheKey{c.gvr, c.namespace})
	}
	gr := c.gvr.GroupResource()
	return nil, status.RetryAfter(refusedRetrySeconds, unavailable(gr, gr.String()+" can't be listed: "+c.refused.Error()))
}
