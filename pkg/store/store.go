package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"kapis.dev/ks-apiserver/pkg/informer"
	"kapis.dev/ks-apiserver/pkg/store/feed"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// The defaults of Options.
const (
	defaultSyncWait      = 2 * time.Second
	defaultVersion       = 3 * time.Second
	defaultStall         = 30 * time.Second
	defaultIdleAfter     = 30 * time.Minute
	defaultNamespaceIdle = 5 * time.Minute
	defaultNamespaces    = 64
	defaultBytes         = 256 << 20
	idleCheck            = time.Minute
)

// Options are what a Store is made of.
type Options struct {
	// Config says how to reach kube-apiserver. Its identity needs get, list and watch, nothing else.
	Config *rest.Config
	// Discovery returns which kinds exist; nil asks the cluster of Config.
	Discovery Discovery
	// Schemas are the kinds with something beyond metadata.
	Schemas map[schema.GroupResource]index.Schema
	// Registerer registers the store's metrics; nil for none.
	Registerer prometheus.Registerer
	// Clock is the time; nil for the machine's.
	Clock clock.WithTicker
	// SyncWait is how long a query waits for a kind that has just been started (2 s).
	SyncWait time.Duration
	// VersionWait is how long a query waits for a resource version that the cache has not seen (3 s).
	VersionWait time.Duration
	// StallAfter is how long nothing may arrive before an initial list is aborted and tried again (30 s); ten times that is
	// the longest that one may take.
	StallAfter time.Duration
	// MaxOutage is how long kube-apiserver may be out of reach before a kind is read again as a whole (informer.MaxOutage).
	MaxOutage time.Duration
	// IdleAfter is how long a kind stays cached without a request (30 min).
	IdleAfter time.Duration
	// NamespaceIdle is how long the cache of one namespace stays without a request, for kinds that are cached whole by
	// namespace only (5 min); Namespaces is how many such caches there are at most (64), and NamespaceBytes how many bytes
	// they have together (256 MiB). Three quarters of either may be watched.
	NamespaceIdle  time.Duration
	Namespaces     int
	NamespaceBytes int64
	// MemoryBytes is how much all caches may take together (0: any amount). Beyond it, queries of one kind with many objects fail
	// with 503 for some minutes, and everything else goes on; what feeds a sink is never refused. A quarter of it bounds
	// NamespaceBytes.
	MemoryBytes int64
	// MemoryElsewhere is what the stores of other clusters take that share this bound; nil for none. MemorySetting names what raises
	// the bound, for users whose queries are refused ("": the settings of a server for its own cluster).
	MemoryElsewhere func() int64
	MemorySetting   string
}

// Store has the caches of a cluster, one for each kind, started by the first request for it.
type Store struct {
	options Options
	client  *rest.RESTClient
	clock   clock.WithTicker
	catalog *Catalog
	began   time.Time
	ctx     context.Context // ends everything that the store started
	wg      sync.WaitGroup

	caches     sync.Map // schema.GroupVersionResource -> *cache
	namespaced sync.Map // cacheKey -> *cache: the kinds that are cached whole by namespace only
	changes    changeCounter
	mu         sync.Mutex
	begun      uint64                               // the first number of the last cache
	refused    map[schema.GroupVersionResource]bool // the kinds that were refused once
}

// New returns a store whose caches live until ctx ends. It watches the definitions of custom resources and API services from
// the start, to know which kinds exist; nothing else is read before it is asked for.
func New(ctx context.Context, o Options) (*Store, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	setDefault(&o.SyncWait, defaultSyncWait)
	setDefault(&o.VersionWait, defaultVersion)
	setDefault(&o.StallAfter, defaultStall)
	setDefault(&o.MaxOutage, informer.MaxOutage)
	setDefault(&o.IdleAfter, defaultIdleAfter)
	setDefault(&o.NamespaceIdle, defaultNamespaceIdle)
	setDefault(&o.Namespaces, defaultNamespaces)
	setDefault(&o.NamespaceBytes, defaultBytes)
	if o.MemoryBytes > 0 {
		o.NamespaceBytes = min(o.NamespaceBytes, max(o.MemoryBytes/4, 1))
	}
	client, err := feed.NewClient(o.Config)
	if err != nil {
		return nil, err
	}
	if o.Discovery == nil {
		c := rest.CopyConfig(o.Config)
		c.QPS = -1 // the catalog asks at most once a second
		d, err := discovery.NewDiscoveryClientForConfig(c)
		if err != nil {
			return nil, fmt.Errorf("make a discovery client of %s: %w", o.Config.Host, err)
		}
		o.Discovery = d
	}
	s := &Store{options: o, client: client, clock: o.Clock, began: o.Clock.Now(), ctx: ctx,
		refused: map[schema.GroupVersionResource]bool{}}
	s.catalog = newCatalog(o.Discovery, o.Clock, s.drop)
	if o.Registerer != nil {
		if err := o.Registerer.Register(collector{s}); err != nil {
			return nil, fmt.Errorf("register the metrics of the store: %w", err)
		}
	}
	s.watchDiscovery()
	s.wg.Go(s.stopIdleEveryMinute)
	return s, nil
}

func setDefault[T time.Duration | int | int64](to *T, v T) {
	if *to <= 0 {
		*to = v
	}
}

// Wait returns when the context of New has ended and every goroutine of the store has returned.
func (s *Store) Wait() { s.wg.Wait() }

// Catalog returns the catalog of kinds.
func (s *Store) Catalog() *Catalog { return s.catalog }

// Feed sends sink all objects of a kind and then every change, until the store ends. synced returns nil once the first list
// has been delivered, and the reason before. The kind stays in memory; sinks and queries share one reflector.
func (s *Store) Feed(gvr schema.GroupVersionResource, sink Sink) (synced func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.cache(gvr)
	var f *subscriber
	if ok && c.refused == nil {
		f = c.add(sink)
	} else {
		c = s.newCache(cacheKey{gvr: gvr})
		f = c.add(sink)
		s.start(c)
	}
	return func() error {
		if f.synced.Load() {
			return nil
		}
		if err := c.lastError(); err != nil {
			return fmt.Errorf("list %s: %w", gvr.GroupResource(), err)
		}
		return fmt.Errorf("list %s: %w", gvr.GroupResource(), errIncomplete)
	}
}

// Complete returns what tells whether an object of some kinds of which no sink was told is missing in the cluster, too. It returns nil
// while the lists of these kinds are complete and their watches go on, or the cluster does not have the kind, and else why it may exist.
func Complete(s *Store, kinds ...schema.GroupVersionResource) func() error {
	return func() error {
		for _, gvr := range kinds {
			err := errIncomplete
			if c, ok := s.cache(gvr); ok {
				err = c.behind()
			}
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("list %s: %w", gvr.GroupResource(), err)
			}
		}
		return nil
	}
}

// Snapshot returns the objects of a kind as they are now. A kind that is not cached yet is started and waited for briefly.
// The error is a 503 with the reason.
func (s *Store) Snapshot(ctx context.Context, gvr schema.GroupVersionResource) (*index.Snapshot, error) {
	c, ok := s.cache(gvr)
	if !ok {
		c = s.use(gvr)
	}
	return s.first(ctx, c)
}

// first returns the newest snapshot of a cache, and waits up to SyncWait for the first one.
func (s *Store) first(ctx context.Context, c *cache) (*index.Snapshot, error) {
	if _, err := c.usable(); err != nil {
		return nil, err
	}
	s.touch(c)
	if snap := c.coll.Snapshot(); snap != nil {
		return snap, nil
	}
	timeout := s.clock.NewTimer(s.options.SyncWait)
	defer timeout.Stop()
	select {
	case <-c.synced:
		return c.coll.Snapshot(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.done:
	case <-timeout.C():
	}
	if err := refusal(s, c); err != nil {
		return nil, err
	}
	why := "its first list is not complete yet"
	if err := c.lastError(); err != nil {
		why = reason(err)
	}
	gr := c.gvr.GroupResource()
	return nil, unavailable(gr, fmt.Sprintf("%s are not ready: %s", gr, why))
}

// SnapshotWithin is Snapshot for optional data. It waits at most for wait, and not at all for a kind that can't be read. It returns nil
// if there is no snapshot yet.
func (s *Store) SnapshotWithin(ctx context.Context, gvr schema.GroupVersionResource, wait time.Duration) *index.Snapshot {
	c, ok := s.cache(gvr)
	if !ok {
		c = s.use(gvr)
	}
	s.touch(c)
	if snap := c.coll.Snapshot(); snap != nil || c.lastError() != nil {
		return snap
	}
	timeout := s.clock.NewTimer(wait)
	defer timeout.Stop()
	select {
	case <-c.synced:
	case <-ctx.Done():
	case <-c.done:
	case <-timeout.C():
	}
	return c.coll.Snapshot()
}

// reason says why a kind can't be read, without the addresses in network errors.
func reason(err error) string {
	if r := apierrors.ReasonForError(err); r != "" {
		return "kube-apiserver answers " + string(r)
	}
	return "kube-apiserver can't be read"
}

func (s *Store) cache(gvr schema.GroupVersionResource) (*cache, bool) {
	c, ok := s.caches.Load(gvr)
	if !ok {
		return nil, false
	}
	return c.(*cache), true
}

// use returns the cache of a kind, started if there is none.
func (s *Store) use(gvr schema.GroupVersionResource) *cache {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.cache(gvr)
	if !ok {
		c = s.beginFor(cacheKey{gvr: gvr})
	}
	return c
}

// beginFor creates and starts a cache for a query. It needs mu.
func (s *Store) beginFor(p cacheKey) *cache {
	c := s.newCache(p)
	c.lastUsed.Store(s.age())
	s.start(c)
	return c
}

// age is how many seconds the store has lived, counted from 1. It is monotonic, also when the machine's clock is set.
func (s *Store) age() int64 { return int64(s.clock.Since(s.began)/time.Second) + 1 }

// touch records that a kind is used. The time is written once a second, to avoid contention between readers.
func (s *Store) touch(c *cache) {
	if c.refused != nil { // it is tried again after some time, however often it is asked for
		return
	}
	now := s.age()
	if at := c.lastUsed.Load(); at != 0 && at != now {
		c.lastUsed.CompareAndSwap(at, now)
	}
}

// numberGap is the distance between the first numbers of two caches. No cache uses up as many.
const numberGap = 1 << 30

// newCache needs mu.
func (s *Store) newCache(p cacheKey) *cache {
	kind := s.options.Schemas[p.gvr.GroupResource()].Within(p.namespace)
	c := &cache{
		gvr: p.gvr, namespace: p.namespace, clock: s.clock, age: s.age, stall: s.options.StallAfter,
		coll: index.NewCollection(&kind, s.clock), kick: make(chan struct{}, 1),
		done: make(chan struct{}), synced: make(chan struct{}),
	}
	// The clock orders numbers between restarts, also for clients that store them longer; within one process it may be set.
	now := s.began.UnixMicro() + s.clock.Since(s.began).Microseconds()
	s.begun = max(s.begun+numberGap, uint64(now)) //nolint:gosec // after 1970
	c.coll.Begin(s.begun)
	c.changed, c.coll.Published = s.changes.add, s.changes.add
	c.source.Client, c.source.Gvr, c.source.Namespace, c.source.Clock, c.source.Meter = s.client, p.gvr, p.namespace, s.clock, &c.meter
	c.source.MaxOutage = s.options.MaxOutage
	c.source.Failed, c.source.Opened, c.source.Known = c.failed, c.opened, c.known
	c.source.Restarted = func() { c.arrived(nil) }
	var admit func(*cache, int) error
	switch {
	case p.namespace != "":
		c.coll.KeepHistory(namespaceHistoryBytes)
		admit = s.admit
	case s.options.MemoryBytes > 0:
		admit = memoryBound{s}.admit
	}
	c.source.Decoder = func() *index.Decoder {
		d := index.NewDecoder(p.gvr.GroupResource(), &kind, c.hasSinks)
		if admit != nil {
			d.Admit = func(n int) error { return admit(c, n) }
		}
		return d
	}
	return c
}

// start needs mu.
func (s *Store) start(c *cache) {
	ctx, cancel := context.WithCancel(s.ctx)
	c.cancel = cancel
	m, key := s.at(c)
	m.Store(key, c)
	s.wg.Go(func() {
		defer cancel()
		c.run(ctx)
	})
}

// drop ends the caches of kinds that are gone. A kind that feeds a sink is retried: it may come back.
func (s *Store) drop(kinds []schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, gvr := range kinds {
		if c, ok := s.cache(gvr); ok && !c.hasSinks() {
			s.caches.Delete(gvr)
			c.cancel()
		}
		s.namespaced.Range(func(_, value any) bool {
			if c := value.(*cache); c.gvr == gvr {
				s.stop(c)
			}
			return true
		})
	}
}

// retry makes the kinds that can't be watched try again now.
func (s *Store) retry() {
	s.caches.Range(func(_, value any) bool {
		value.(*cache).retry()
		return true
	})
}

// stopIdleEveryMinute ends the caches that are not used.
func (s *Store) stopIdleEveryMinute() {
	tick := s.clock.NewTicker(idleCheck)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C():
		}
		s.stopIdle(&s.caches, s.options.IdleAfter)
		s.stopIdle(&s.namespaced, s.options.NamespaceIdle)
	}
}

// DataByNamespace reports whether the objects of the kind are whole in the snapshots of one namespace only: whether
// SnapshotIn and WatchIn differ from Snapshot and Watch.
func (s *Store) DataByNamespace(gvr schema.GroupVersionResource) bool {
	return len(s.options.Schemas[gvr.GroupResource()].CutClusterWide) > 0
}
