package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/store/feed"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// held is how long an attempt lasts after which the next pause is the first one again.
const held = time.Minute

var (
	errRestart = errors.New("a sink was added")
	errStalled = errors.New("nothing arrived, and the initial list is not complete")
	errSlow    = errors.New("the initial list took too long")
)

// cache follows one kind: it runs the reflector, feeds the sinks, and keeps the collection.
type cache struct {
	gvr       schema.GroupVersionResource
	namespace string // where only its objects are kept
	source    feed.ListWatcher
	meter     feed.Meter
	coll      *index.Collection
	clock     clock.WithTicker
	age       func() int64 // Store.age
	stall     time.Duration
	kick      chan struct{} // ends a pause
	refused   bool          // stands for a namespace that is too large; see Store.refuse
	size      atomic.Int64  // bytes that a namespace holds
	arriving  atomic.Int64  // of objects that are read and not in the collection yet

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
	current bool                    // this attempt's list is complete
}

// subscriber is a sink and whether it has the objects that the collection has.
type subscriber struct {
	Sink
	primed bool // changed by the reflector's goroutine only
	synced atomic.Bool
}

// run follows the kind until ctx ends.
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
		// A server that does not send the bookmark at the end of the initial events is asked for a list,
		// and after some time again whether it does.
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

// attempt lists and watches until that fails. The error says why it ended, nil for an end like any.
func (c *cache) attempt(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.mu.Lock()
	c.restart, c.current = cancel, false
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
	return err
}

// The watchdog looks every part of the time after which it acts.
const (
	parts = 4
	// maxListParts bounds an initial list on which something arrives all the time.
	maxListParts = 10 * parts
	// maxSilentParts is when a watch on which nothing arrives is opened anew. kube-apiserver sends a
	// bookmark every minute; a connection may be dead without a sign.
	maxSilentParts = 4 * parts
)

// watchdog ends an attempt whose list is not complete while nothing arrives, or for too long. Behind
// a complete list it ends requests and watches that hang, which are then tried again.
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

// retry ends the pause behind a failed attempt.
func (c *cache) retry() {
	if c.lastError() == nil {
		return
	}
	select {
	case c.kick <- struct{}{}:
	default: // one is told already
	}
}

func (c *cache) isCurrent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// add adds a sink; where the kind is followed already, it is listed anew, so that the sink sees it all.
func (c *cache) add(s Sink) *subscriber {
	f := &subscriber{Sink: s}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sinks = append(c.sinks, f)
	c.lastUsed.Store(0)
	if c.restart != nil {
		c.restart(errRestart)
	}
	return f
}

// subscribers returns the sinks as they are now.
func (c *cache) subscribers() []*subscriber {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sinks
}

func (c *cache) hasSinks() bool { return len(c.subscribers()) > 0 }

// known tells whether there is a state that must not be gone back behind: one that was published, or, since sinks have
// rights and sessions, the one that another process knew.
func (c *cache) known() bool { return c.coll.Snapshot() != nil || c.hasSinks() }

// failed notes why the kind can't be followed.
func (c *cache) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = c.clock.Now()
	if c.err == nil {
		c.since = c.failure
	}
	c.err = err
}

// succeeded notes that the kind is up to date.
func (c *cache) succeeded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.since, c.current = nil, time.Time{}, true
}

// opened notes that a watch is open: one that goes on behind a complete list heals a failure.
func (c *cache) opened() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current {
		c.err, c.since = nil, time.Time{}
	}
}

// lastError returns the last failure, nil while the kind is followed well.
func (c *cache) lastError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// intake is a cache as its reflector sees it: a ReflectorStore that also hears of bookmarks. Its
// methods are called by one goroutine.
type intake struct{ *cache }

// Add takes a new object.
func (c intake) Add(obj any) error { return c.Update(obj) }

// Update takes an object, or changes of objects that came together.
func (c intake) Update(obj any) error {
	switch o := obj.(type) {
	case *index.Decoded:
		c.coll.Set(o.Incoming)
		c.tellSinks(o, false)
	case *feed.EventBatch:
		c.coll.Apply(o.Changes)
		for _, e := range *o {
			c.tellSinks(e.Object.(*index.Decoded), e.Type == watch.Deleted)
		}
	default:
		return fmt.Errorf("unexpected %T", obj)
	}
	return nil
}

// Delete takes an object away.
func (c intake) Delete(obj any) error {
	d, ok := obj.(*index.Decoded)
	if !ok {
		return fmt.Errorf("unexpected %T", obj)
	}
	c.coll.Delete(d.Ref.Namespace, d.Ref.Name, d.Record.ResourceVersion)
	c.tellSinks(d, true)
	return nil
}

// tellSinks tells the sinks of a change that is in the collection.
func (c intake) tellSinks(d *index.Decoded, gone bool) {
	c.arrived(d.Incoming)
	sinks := c.subscribers()
	if len(sinks) == 0 {
		return
	}
	var o *Object
	if !gone {
		o = objectOf(d)
	}
	for _, f := range sinks {
		switch {
		case !f.primed:
		case gone:
			f.Delete(d.Ref.Namespace, d.Ref.Name)
		default:
			f.Set(o)
		}
	}
}

// Replace takes a complete list.
func (c intake) Replace(list []any, version string) error {
	objects, skims := make([]*index.Decoded, len(list)), make([]*index.Incoming, len(list))
	for i, item := range list {
		d, ok := item.(*index.Decoded)
		if !ok {
			return fmt.Errorf("unexpected %T", item)
		}
		objects[i], skims[i] = d, d.Incoming
	}
	sinks := c.subscribers()
	var known *index.Snapshot
	if len(sinks) > 0 {
		c.coll.Flush() // what the sinks were told is published
		known = c.coll.Snapshot()
	}
	gone := c.coll.Replace(skims, version)
	c.arrived(nil)
	for _, f := range sinks {
		c.prime(f, objects, known, gone)
	}
	c.meter.Lists.Add(1)
	c.succeeded()
	c.syncOnce.Do(func() { close(c.synced) })
	return nil
}

// prime brings one sink to a complete list: known is what the others have already been told.
func (c intake) prime(f *subscriber, objects []*index.Decoded, known *index.Snapshot, gone []index.Ref) {
	if f.primed {
		for _, ref := range gone {
			f.Delete(ref.Namespace, ref.Name)
		}
	}
	for _, d := range objects {
		if f.primed && known != nil {
			if old, ok := known.Get(d.Ref.Namespace, d.Ref.Name); ok && old.UID == d.Record.UID &&
				old.ResourceVersion == d.Record.ResourceVersion {
				continue
			}
		}
		f.Set(objectOf(d))
	}
	f.primed = true
	f.synced.Store(true)
}

// Resync has nothing to do: nobody waits for a repetition.
func (c intake) Resync() error { return nil }

// Bookmark notes how far the kind is known.
func (c intake) Bookmark(version string) error {
	c.coll.Bookmark(version)
	c.succeeded()
	return nil
}

// objectOf returns what sinks are told of an object.
func objectOf(d *index.Decoded) *Object {
	return &Object{
		Namespace: d.Ref.Namespace, Name: d.Ref.Name, UID: d.Record.UID, ResourceVersion: d.Record.ResourceVersion,
		Raw: redaction.Bytes(d.Uncut()),
	}
}
