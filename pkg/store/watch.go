package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrGone is why a Watch ends: the kind is not served any more.
var ErrGone = errors.New("the kind is not served any more")

// Watch follows the snapshots of a kind, which stays in memory meanwhile. It is used by one goroutine,
// and costs nothing between two snapshots.
type Watch struct {
	cache *cache
	last  *Snapshot
}

// Watch returns a Watch of a kind whose first snapshot is there, and fails as Snapshot does. It is to be
// closed.
func (s *Store) Watch(ctx context.Context, gvr schema.GroupVersionResource) (*Watch, error) {
	snap, err := s.Snapshot(ctx, gvr)
	if err != nil {
		return nil, err
	}
	c, ok := s.cache(gvr)
	if !ok {
		return nil, unavailable(gvr.GroupResource(), ErrGone.Error())
	}
	c.watchers.Add(1)
	return &Watch{cache: c, last: snap}, nil
}

// Snapshot returns the last one.
func (w *Watch) Snapshot() *Snapshot { return w.last }

// Next waits for a snapshot that is newer than the last one. The error is ErrGone or that of ctx.
func (w *Watch) Next(ctx context.Context) (*Snapshot, error) {
	for {
		wake := w.cache.coll.next()
		if snap := w.cache.coll.current.Load(); snap != w.last {
			w.last = snap
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

// Close lets go of the kind.
func (w *Watch) Close() {
	if now := w.cache.clock.Now().Unix(); w.cache.lastUsed.Load() != 0 {
		w.cache.lastUsed.Store(now)
	}
	w.cache.watchers.Add(-1)
}

// SnapshotAt is Snapshot, but for one that has reached a resource version, which the caller knows from a
// write or an older answer. It waits for a moment (VersionWait); the error is then a 504.
func (s *Store) SnapshotAt(ctx context.Context, gvr schema.GroupVersionResource, version string) (*Snapshot, error) {
	snap, err := s.Snapshot(ctx, gvr)
	if err != nil || snap.Reaches(version) {
		return snap, err
	}
	w, err := s.Watch(ctx, gvr)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	bounded, cancel := context.WithTimeout(ctx, s.options.VersionWait)
	defer cancel()
	for snap = w.Snapshot(); !snap.Reaches(version); {
		if snap, err = w.Next(bounded); err != nil {
			break
		}
	}
	switch {
	case err == nil:
		return snap, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, ErrGone):
		return nil, unavailable(gvr.GroupResource(), ErrGone.Error())
	}
	return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout,
		Message: fmt.Sprintf("the cache of %s has not reached resource version %q yet: it is at %s", gvr.GroupResource(), version, w.Snapshot().ResourceVersion()),
		Details: &metav1.StatusDetails{
			Group: gvr.Group, Kind: gvr.Resource, RetryAfterSeconds: 1,
			Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}},
		},
	}}
}
