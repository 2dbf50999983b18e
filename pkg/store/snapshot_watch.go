package store

import (
	"context"
	"errors"

	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrGone ends a Watch: the kind is no longer served, or the store has ended.
var ErrGone = errors.New("the kind is not served any more")

// Watch iterates over the snapshots of a kind, which stays in memory meanwhile. It is used by one goroutine, costs nothing
// between two snapshots, and holds none of them.
type Watch struct {
	cache  *cache
	seen   uint64 // generation of the last snapshot that was returned
	closed bool
}

// Watch returns a Watch of a kind once its first snapshot exists, and fails as Snapshot does. The caller must close it.
func (s *Store) Watch(ctx context.Context, gvr schema.GroupVersionResource) (*Watch, error) {
	return s.watch(ctx, s.hold(gvr))
}

// hold returns the cache of a kind, started if there is none. It is not dropped as idle until it is released.
func (s *Store) hold(gvr schema.GroupVersionResource) *cache {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.cache(gvr)
	if !ok {
		c = s.beginFor(cacheKey{gvr: gvr})
	}
	c.watchers.Add(1)
	return c
}

// watch returns a Watch of a cache that is held. On an error it releases the cache.
func (s *Store) watch(ctx context.Context, c *cache) (*Watch, error) {
	w := &Watch{cache: c}
	if _, err := s.first(ctx, c); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Snapshot returns the newest snapshot.
func (w *Watch) Snapshot() *index.Snapshot {
	snap := w.cache.coll.Snapshot()
	w.seen = snap.Generation()
	return snap
}

// Next waits for a snapshot newer than the last one returned. The error is ErrGone or that of ctx.
func (w *Watch) Next(ctx context.Context) (*index.Snapshot, error) {
	for {
		wake := w.cache.coll.Next()
		if snap := w.cache.coll.Snapshot(); snap.Generation() != w.seen {
			w.seen = snap.Generation()
			return snap, nil
		}
		select {
		case <-wake:
		case <-w.cache.done:
			return nil, ErrGone
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close releases the kind. Further calls do nothing.
func (w *Watch) Close() {
	if w.closed {
		return
	}
	w.closed = true
	if at := w.cache.lastUsed.Load(); at != 0 { // idle from now on
		w.cache.lastUsed.CompareAndSwap(at, w.cache.age())
	}
	w.cache.watchers.Add(-1)
}
