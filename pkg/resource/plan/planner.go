package plan

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/expression"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/projection"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Planner builds plans. It knows the kinds with fields of their own, and caches what plans read of other kinds.
type Planner struct {
	store  *store.Store
	kinds  map[schema.GroupResource]*Kind
	params map[*Kind][]string // what Kind.filterParams returns

	Memo        memo
	outsiders   outsiders
	expressions expression.Compiler
}

// New returns a planner for the kinds of a store.
func New(s *store.Store, kinds map[schema.GroupResource]*Kind) *Planner {
	params := map[*Kind][]string{&metadataOnly: metadataOnly.filterParams()}
	for _, k := range kinds {
		params[k] = k.filterParams()
	}
	return &Planner{store: s, kinds: kinds, params: params}
}

// metadataOnly is the Kind of any other kind.
var metadataOnly Kind

// KindOf returns what a kind has beyond metadata.
func (p *Planner) KindOf(gvr schema.GroupVersionResource) *Kind {
	if k := p.kinds[gvr.GroupResource()]; k != nil {
		return k
	}
	return &metadataOnly
}

// FilterParams returns the names of the kind's own filters.
func (p *Planner) FilterParams(k *store.Kind) []string { return p.filterParams(p.KindOf(k.GVR)) }

func (p *Planner) filterParams(own *Kind) []string {
	if params, ok := p.params[own]; ok {
		return params
	}
	return own.filterParams()
}

// Plan returns the plan of a query for the objects of a kind in a scope.
func (p *Planner) Plan(ctx context.Context, k *store.Kind, scope Scope, q *query.Query) (*Builder, error) {
	b := &Builder{Ctx: ctx, Planner: p, Kind: k, Own: p.KindOf(k.GVR), Scope: scope, Query: q}
	if len(q.Project) > 0 {
		b.Projection = projection.New(q.Project)
	}
	if err := b.build(); err != nil {
		return nil, err
	}
	return b, nil
}

// HasData reports whether objects of a kind are whole in the scope of a namespace only, and there for callers who may read
// the kind itself: for such a kind the caller must set Scope.Data.
func (p *Planner) HasData(k *store.Kind) bool { return p.store.DataByNamespace(k.GVR) }

// WithData reports whether a query sees the data of a kind that has it by namespace only.
func (p *Planner) WithData(k *store.Kind, scope Scope) bool {
	return scope.Data && scope.Namespace != "" && p.HasData(k)
}

// Snapshot returns the snapshot for a query in a scope: one that has reached version, or the newest where that is empty.
// Refs and positions of a snapshot with data are not those of the kind's.
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

// Cuts returns the fields to leave out of objects of a kind that are read from kube-apiserver for an answer in a scope.
func (p *Planner) Cuts(k *store.Kind, scope Scope) []rawjson.Cut {
	own := p.KindOf(k.GVR)
	cuts := []rawjson.Cut{own.Cut}
	if len(own.CutClusterWide) > 0 && !p.WithData(k, scope) {
		// kubectl apply repeats the data in its annotation, and also what is given as stringData.
		cuts = append(cuts, own.CutClusterWide, rawjson.Cuts([]string{"metadata", "annotations", corev1.LastAppliedConfigAnnotation}))
	}
	return cuts
}
