package store

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store/index"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// A kind whose Schema has CutClusterWide is cached twice: for the cluster without what CutClusterWide names, and whole for
// the namespaces that a request asks for. There may be many of the latter, and large ones: so only a few exist at once,
// their total size is bounded, and they end soon after their last use.

var (
	// errTooLarge ends the reading of a namespace with more data than one may have in memory.
	errTooLarge = errors.New("the namespace has more data than may be kept in memory")
	// errNoRoom ends the reading of a namespace where those that are watched have too much data together.
	errNoRoom = errors.New("the namespaces that are watched have more data than may be kept in memory")
)

// Bounds on the caches of one namespace.
const (
	namespacePart         = 4       // one namespace gets at most this part of Options.NamespaceBytes, and so much is never watched
	namespaceHistoryBytes = 1 << 20 // bytes of history that a namespace may always have
	namespaceRetrySeconds = 5       // seconds after which a refused query may succeed
	refusedRetrySeconds   = 60      // ... of a kind with too many objects
)

// cacheKey is a kind in one namespace.
type cacheKey struct {
	gvr       schema.GroupVersionResource
	namespace string
}

// SnapshotIn returns a snapshot of the objects of one namespace, with what Schema.CutClusterWide names. Its cache is started
// by the first query and dropped some minutes after the last; its generations and positions are unrelated to those of the
// kind. For a kind without CutClusterWide, and for no namespace, it is Snapshot. The error is 413 where the namespace has
// too much data, and 503 as for any kind.
func (s *Store) SnapshotIn(ctx context.Context, gvr schema.GroupVersionResource, namespace string) (*index.Snapshot, error) {
	if namespace == "" || !s.DataByNamespace(gvr) {
		return s.Snapshot(ctx, gvr)
	}
	c, err := s.useIn(cacheKey{gvr, namespace})
	if err != nil {
		return nil, err
	}
	return s.first(ctx, c)
}

// useIn returns the cache of a namespace, started if there is none.
func (s *Store) useIn(p cacheKey) (*cache, error) {
	if c, ok := s.namespaced.Load(p); ok {
		return c.(*cache).usable()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.namespaced.Load(p)
	if !ok {
		if len(validation.IsDNS1123Label(p.namespace)) > 0 { // it becomes a path segment
			return nil, status.BadRequestf("%.80q is not the name of a namespace", p.namespace)
		}
		if err := s.makeRoom(p); err != nil {
			return nil, err
		}
		value = s.beginFor(p)
	}
	return value.(*cache).usable()
}

// holdIn counts a watch of a namespace, so that its cache is not dropped. A part of all caches and of their bytes is not watched: otherwise
// a user with many namespaces could leave no room for queries of any other.
func holdIn(s *Store, c *cache) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, _ := s.namespaced.Load(cacheKey{c.gvr, c.namespace}); now != c { // it made room for another meanwhile
		return cmp.Or(refusal(s, c), tooManyWatched(c.gvr))
	}
	if c.watchers.Load() == 0 {
		n, size, bound := watched(s)
		// Some room is left for those that grow: one that is watched and soon ended again would be read again and again.
		if n >= max(s.options.Namespaces*(namespacePart-1)/namespacePart, 1) || size+c.size.Load() > bound-bound/8 {
			return tooManyWatched(c.gvr)
		}
	}
	c.watchers.Add(1)
	return nil
}

// watched returns how many caches of namespaces are being watched, their size, and how large they may be. The rest has room for any other.
func watched(s *Store) (n int, size, bound int64) {
	s.namespaced.Range(func(_, value any) bool {
		if c := value.(*cache); c.watchers.Load() > 0 {
			n, size = n+1, size+c.size.Load()
		}
		return true
	})
	return n, size, s.options.NamespaceBytes - s.options.NamespaceBytes/namespacePart
}

func tooManyWatched(gvr schema.GroupVersionResource) error {
	return apierrors.NewTooManyRequests("too many namespaces are being watched, or too large ones, for the "+gvr.GroupResource().String()+
		" of another: try again later", namespaceRetrySeconds)
}

// makeRoom ends the least recently used cache if the limit is reached. It needs mu.
func (s *Store) makeRoom(p cacheKey) error {
	n := 0
	s.namespaced.Range(func(any, any) bool {
		n++
		return true
	})
	if n < s.options.Namespaces {
		return nil
	}
	if oldest := s.oldest(nil); oldest != nil {
		s.stop(oldest)
		return nil
	}
	return tooManyWatched(p.gvr)
}

// oldest returns the least recently used cache of a namespace that no one watches, other than except.
func (s *Store) oldest(except *cache) (oldest *cache) {
	s.namespaced.Range(func(_, value any) bool {
		c := value.(*cache)
		if c != except && c.watchers.Load() == 0 && (oldest == nil || c.lastUsed.Load() < oldest.lastUsed.Load()) {
			oldest = c
		}
		return true
	})
	return oldest
}

// at returns where a cache is.
func (s *Store) at(c *cache) (m *sync.Map, key any) {
	if c.namespace != "" {
		return &s.namespaced, cacheKey{c.gvr, c.namespace}
	}
	return &s.caches, c.gvr
}

// stop ends a cache. It needs mu.
func (s *Store) stop(c *cache) {
	m, key := s.at(c)
	m.CompareAndDelete(key, c)
	c.cancel()
}

// admit is called before n bytes of a namespace are stored. Where all namespaces together have too much, those used longest
// ago are dropped. A namespace that is too large by itself is refused for some minutes. Where those that are watched have too much
// together, the largest of them ends, and can be read again at once.
func (s *Store) admit(c *cache, n int) error {
	c.arriving.Add(int64(n + index.RecordBytes))
	size, bound := c.measure(), s.options.NamespaceBytes
	crowded := func() bool {
		if c.watchers.Load() == 0 {
			return false
		}
		_, all, most := watched(s)
		return all > most
	}
	if size <= bound/namespacePart && s.namespaceBytes() <= bound && !crowded() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if size > bound/namespacePart {
		s.refuse(c, errTooLarge)
		return errTooLarge
	}
	for s.namespaceBytes() > bound || crowded() {
		ends := s.oldest(c)
		if crowded() {
			ends = largestWatched(s)
		}
		if ends == nil || ends == c {
			s.stop(c)
			return errNoRoom
		}
		s.stop(ends)
	}
	return nil
}

// largestWatched returns the largest cache of a namespace that is watched, nil for none.
func largestWatched(s *Store) (largest *cache) {
	s.namespaced.Range(func(_, value any) bool {
		if c := value.(*cache); c.watchers.Load() > 0 && (largest == nil || c.size.Load() > largest.size.Load()) {
			largest = c
		}
		return true
	})
	return largest
}

// arrived records that an admitted object is in the collection, or is not stored after all. A nil object stands for the
// start or the end of a list, when no object is pending.
func (c *cache) arrived(o *index.Incoming) {
	if o == nil || c.arriving.Add(-int64(o.Record.JSON.Len()+index.RecordBytes)) < 0 {
		c.arriving.Store(0)
	}
}

// namespaceBytes is the size of all caches of namespaces.
func (s *Store) namespaceBytes() (total int64) {
	s.namespaced.Range(func(_, value any) bool {
		total += value.(*cache).size.Load()
		return true
	})
	return total
}

// refuse ends a cache that is too large, and puts one in its place that returns an error for Options.NamespaceIdle, so that
// its objects are not read again for every query. It needs mu.
func (s *Store) refuse(c *cache, why error) {
	m, key := s.at(c)
	if now, _ := m.Load(key); now == c {
		stone := s.newCache(cacheKey{c.gvr, c.namespace})
		stone.refused, stone.cancel = why, func() {}
		stone.lastUsed.Store(s.age())
		if c.namespace == "" {
			stone.failed(why)
		}
		close(stone.done)
		m.Store(key, stone)
	}
	c.cancel()
}

func tooLarge(p cacheKey) error {
	gr := p.gvr.GroupResource()
	return status.About(gr, "", status.Errorf(http.StatusRequestEntityTooLarge,
		"the %s of namespace %s are too large to be listed with their data: ask for one by its name at /api/%s", gr, p.namespace, p.gvr.Version))
}

// stopIdle ends the caches of m that were not used for some time, and lets what was refused be read again.
func (s *Store) stopIdle(m *sync.Map, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.Range(func(key, value any) bool {
		c, after := value.(*cache), after
		if c.refused != nil {
			after = s.options.NamespaceIdle
		}
		if at := c.lastUsed.Load(); at != 0 && at < s.age()-int64(after/time.Second) && c.watchers.Load() == 0 && !c.hasSinks() {
			m.Delete(key)
			c.cancel()
		}
		return true
	})
}

// namespaceConditions sums up the namespaces of each kind.
func (s *Store) namespaceConditions() []Condition {
	sums := map[schema.GroupVersionResource]*Condition{}
	var out []Condition
	s.namespaced.Range(func(_, value any) bool {
		one := value.(*cache).condition()
		sum := sums[one.GVR]
		if sum == nil {
			one.Namespaces = 1
			sums[one.GVR] = &one
			return true
		}
		sum.add(&one)
		return true
	})
	for _, c := range sums {
		out = append(out, *c)
	}
	return out
}

// add adds the state of another namespace: the fault of one is a fault of the sum.
func (c *Condition) add(o *Condition) {
	c.Namespaces++
	c.Synced = c.Synced && o.Synced
	c.Objects += o.Objects
	c.Bytes, c.Memory = c.Bytes+o.Bytes, c.Memory+o.Memory
	c.Age, c.Lag = max(c.Age, o.Age), max(c.Lag, o.Lag)
	c.Resyncs, c.Restarts = c.Resyncs+o.Resyncs, c.Restarts+o.Restarts
	c.Events = c.Events.Plus(o.Events)
	if o.Failed.After(c.Failed) {
		c.Failed, c.FailedAge = o.Failed, o.FailedAge
	}
	if c.Err == nil || o.Err != nil && o.Since.Before(c.Since) {
		c.Err, c.Since = o.Err, o.Since
	}
}

// WatchIn is Watch for SnapshotIn. The namespace stays cached while it is watched, unless it grows too large. The error is also 429
// where too many namespaces are watched.
func (s *Store) WatchIn(ctx context.Context, gvr schema.GroupVersionResource, namespace string) (*Watch, error) {
	if namespace == "" || !s.DataByNamespace(gvr) {
		return s.Watch(ctx, gvr)
	}
	c, err := s.useIn(cacheKey{gvr, namespace})
	if err != nil {
		return nil, err
	}
	// It is held once its size is known: a watch that is refused is refused from memory when it is tried again.
	if _, err := s.first(ctx, c); err != nil {
		return nil, err
	}
	if err := holdIn(s, c); err != nil {
		return nil, err
	}
	return &Watch{cache: c}, nil
}
