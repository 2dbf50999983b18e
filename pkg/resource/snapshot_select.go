package resource

import (
	"context"

	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Which cache answers a query is decided here, and nowhere else.

// HasData tells whether objects of a kind are whole in the scope of a namespace only, and there for those who may read
// the kind itself: for such a kind Scope.Data is to be found out.
func (s *Service) HasData(k *store.Kind) bool { return s.planner.HasData(k) }

// selectSnapshot returns what a query in a scope is answered from: a snapshot that has reached version, or the newest
// where that is empty. Refs and positions of a whole snapshot are not those of the kind's.
func (s *Service) selectSnapshot(ctx context.Context, k *store.Kind, scope plan.Scope, version string) (*index.Snapshot, error) {
	if s.planner.WithData(k, scope) {
		return s.store.SnapshotInAt(ctx, k.GVR, scope.Namespace, version)
	}
	return s.store.SnapshotAt(ctx, k.GVR, version)
}

// selectWatch returns a watch of the snapshots that snapshotOf returns.
func (s *Service) selectWatch(ctx context.Context, k *store.Kind, scope plan.Scope) (*store.Watch, error) {
	if s.planner.WithData(k, scope) {
		return s.store.WatchIn(ctx, k.GVR, scope.Namespace)
	}
	return s.store.Watch(ctx, k.GVR)
}
