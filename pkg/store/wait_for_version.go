package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store/index"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
	if namespace == "" || !s.DataByNamespace(gvr) {
		return s.SnapshotAt(ctx, gvr, version)
	}
	c, err := s.useIn(cacheKey{gvr, namespace})
	if err != nil {
		return nil, err
	}
	snap, err := s.first(ctx, c)
	if err != nil || snap.Reaches(version) {
		return snap, err
	}
	return s.reach(ctx, &Watch{cache: c}, at(version)) // the cache was used just now: it is not held, which might be refused
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

// SnapshotAt is Snapshot at or after a resource version, which the caller knows from a write or an older answer. It waits up
// to VersionWait; the error is then a 504. The version must be one of the kind: changes of other kinds are not seen here
// before the next bookmark.
func (s *Store) SnapshotAt(ctx context.Context, gvr schema.GroupVersionResource, version string) (*index.Snapshot, error) {
	if version == "" {
		return s.Snapshot(ctx, gvr)
	}
	return s.snapshotOnce(ctx, gvr, at(version))
}

// snapshotOnce returns the first snapshot of a kind that reaches a goal.
func (s *Store) snapshotOnce(ctx context.Context, gvr schema.GroupVersionResource, g goal) (*index.Snapshot, error) {
	snap, err := s.Snapshot(ctx, gvr)
	if err != nil || g.reached(snap) {
		return snap, err
	}
	w, err := s.Watch(ctx, gvr)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	return s.reach(ctx, w, g)
}

// goal is a state to wait for; what is its name in errors.
type goal struct {
	what    string
	reached func(*index.Snapshot) bool
}

// at is the goal to reach a version.
func at(version string) goal {
	return goal{fmt.Sprintf("resource version %q", version), func(snap *index.Snapshot) bool { return snap.Reaches(version) }}
}
