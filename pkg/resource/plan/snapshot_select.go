package plan

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Which cache answers a query is decided here, and nowhere else.

// Snapshot returns what a query in a scope is answered from: a snapshot that has reached version, or the newest one where
// that is empty. Refs and positions of a snapshot with data are not those of the kind's.
func (p *Planner) Snapshot(ctx context.Context, k *store.Kind, scope Scope, version string) (*index.Snapshot, error) {
	if p.WithData(k, scope) {
		return p.store.SnapshotInAt(ctx, k.GVR, scope.Namespace, version)
	}
	return p.store.SnapshotAt(ctx, k.GVR, version)
}

// Watch returns a watch of the snapshots that Snapshot returns.
func (p *Planner) Watch(ctx context.Context, k *store.Kind, scope Scope) (*store.Watch, error) {
	if p.WithData(k, scope) {
		return p.store.WatchIn(ctx, k.GVR, scope.Namespace)
	}
	return p.store.Watch(ctx, k.GVR)
}

// Cuts returns what answers in a scope leave out of the objects of a kind that are read at kube-apiserver.
func (p *Planner) Cuts(k *store.Kind, scope Scope) []rawjson.Cut {
	own := p.KindOf(k.GVR)
	cuts := []rawjson.Cut{own.Cut}
	if len(own.CutClusterWide) > 0 && !p.WithData(k, scope) {
		// kubectl apply repeats the data in its annotation, and what it calls stringData.
		cuts = append(cuts, own.CutClusterWide, rawjson.Cuts([]string{"metadata", "annotations", corev1.LastAppliedConfigAnnotation}))
	}
	return cuts
}
