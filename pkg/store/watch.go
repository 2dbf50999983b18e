package store

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store/index"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// SnapshotWithout is Snapshot without the object of a UID, whether it is gone or another has its name: kube-apiserver's
// answer to a deletion has no resource version that SnapshotAt could wait for. It waits and fails as SnapshotAt does.
func (s *Store) SnapshotWithout(ctx context.Context, gvr schema.GroupVersionResource, namespace, name, uid string) (*index.Snapshot,
	error) {
	return s.snapshotOnce(ctx, gvr, goal{"the deletion of " + strings.TrimPrefix(namespace+"/"+name, "/"), func(snap *index.Snapshot) bool {
		r, ok := snap.Get(namespace, name)
		return !ok || r.UID != uid
	}})
}

// SnapshotInAt is SnapshotAt for SnapshotIn.
func (s *Store) SnapshotInAt(ctx context.Context, gvr schema.GroupVersionResource, namespace, version string) (*index.Snapshot, error) {
	snap, err := s.SnapshotIn(ctx, gvr, namespace)
	if err != nil || snap.Reaches(version) {
		return snap, err
	}
	w, err := s.WatchIn(ctx, gvr, namespace)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	return s.reach(ctx, w, at(version))
}

// reach waits until a watch has reached a goal.
func (s *Store) reach(ctx context.Context, w *Watch, g goal) (*index.Snapshot, error) {
	bounded, cancel := context.WithTimeout(ctx, s.options.VersionWait)
	defer cancel()
	for snap := w.Snapshot(); ; {
		if g.reached(snap) {
			return snap, nil
		}
		var err error
		if snap, err = w.Next(bounded); err == nil {
			continue
		}
		gvr := w.cache.gvr
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, ErrGone):
			if err := refusal(s, w.cache); err != nil {
				return nil, err
			}
			return nil, unavailable(gvr.GroupResource(), ErrGone.Error())
		}
		return nil, lagging(gvr.GroupResource(), g.what, w.Snapshot().ResourceVersion())
	}
}

// lagging returns a 504 in the form that Kubernetes clients know.
func lagging(gr schema.GroupResource, what, have string) error {
	err := status.RetryAfter(1, status.About(gr, "", status.Errorf(http.StatusGatewayTimeout,
		"the cache of %s has not reached %s yet: it is at %s", gr, what, have)))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}
