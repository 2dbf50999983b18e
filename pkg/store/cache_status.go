package store

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/store/feed"
)

// Condition is the state of one kind's cache.
type Condition struct {
	GVR schema.GroupVersionResource
	// Namespaces is how many caches of one namespace this is the sum of, 0 for the cache of the kind. A kind that is cached
	// both ways has a Condition for each.
	Namespaces int
	// Synced reports whether there is a complete list to answer from.
	Synced bool
	// Err is why the kind is not up to date, nil while it is; Since is when that began.
	Err   error
	Since time.Time
	// Refused reports whether there are too many objects for Options.MemoryBytes; Err says so too.
	Refused bool
	// Objects and Bytes are what is cached: Bytes is the length of their JSON. Memory is roughly what they and their history take,
	// which Options.MemoryBytes is about.
	Objects       int
	Bytes, Memory int64
	// Age is how old the last snapshot is, Lag how long its oldest change waited for it.
	Age, Lag time.Duration
	// Resyncs counts the complete lists after the first, whether lists or streams; Restarts counts the watches that were
	// opened after the first.
	Resyncs, Restarts uint64
	// Events is what was read.
	Events feed.Events
	// Failed is when something last failed, zero if nothing ever did; FailedAge is how long ago.
	Failed    time.Time
	FailedAge time.Duration
}

// Conditions returns the state of every cache, ordered by group, version and resource.
func (s *Store) Conditions() []Condition {
	var out []Condition
	s.caches.Range(func(_, value any) bool {
		out = append(out, value.(*cache).condition())
		return true
	})
	out = append(out, s.namespaceConditions()...)
	slices.SortFunc(out, func(a, b Condition) int { return cmp.Compare(a.Name(), b.Name()) })
	return out
}

func (c *cache) condition() Condition {
	c.mu.Lock()
	out := Condition{GVR: c.gvr, Err: c.err, Since: c.since, Failed: c.failure}
	c.mu.Unlock()
	if !out.Failed.IsZero() {
		out.FailedAge = c.clock.Since(out.Failed)
	}
	out.Resyncs, out.Restarts = behindFirst(&c.meter.Lists), behindFirst(&c.meter.Opened)
	out.Events = c.meter.Events()
	out.Refused, out.Memory = errors.Is(c.refused, errTooMany), c.coll.Size()
	published, lag := c.coll.LastPublished()
	out.Lag = lag
	if snap := c.coll.Snapshot(); snap != nil {
		out.Synced, out.Objects, out.Bytes = true, snap.Len(), snap.Bytes()
		out.Age = c.clock.Since(published)
	}
	return out
}

// Name names the cache: v1/pods, apps/v1/deployments, v1/secrets@namespaces.
func (c *Condition) Name() string {
	if c.Namespaces > 0 {
		return name(c.GVR) + "@namespaces"
	}
	return name(c.GVR)
}

func behindFirst(n *atomic.Uint64) uint64 {
	if n := n.Load(); n > 0 {
		return n - 1
	}
	return 0
}

// name writes a GVR as a path writes it: v1/pods, apps/v1/deployments.
func name(gvr schema.GroupVersionResource) string {
	if gvr.Group == "" {
		return gvr.Version + "/" + gvr.Resource
	}
	return gvr.Group + "/" + gvr.Version + "/" + gvr.Resource
}
