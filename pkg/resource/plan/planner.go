package plan

import (
	"context"

	"kapis.dev/ks-apiserver/pkg/expression"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/projection"
	"kapis.dev/ks-apiserver/pkg/store"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Planner makes plans. It knows the kinds with something of their own, and keeps what plans read of other kinds.
type Planner struct {
	store  *store.Store
	kinds  map[schema.GroupResource]*Kind
	params map[*Kind][]string // what kind.filterParams returns

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

// metadataOnly is what a kind without anything of its own has.
var metadataOnly Kind

// KindOf returns what a kind has beyond metadata.
func (p *Planner) KindOf(gvr schema.GroupVersionResource) *Kind {
	if k := p.kinds[gvr.GroupResource()]; k != nil {
		return k
	}
	return &metadataOnly
}

// Plan returns the plan of a query for the objects of a kind in a scope.
func (p *Planner) Plan(ctx context.Context, k *store.Kind, scope Scope, q *query.Query) (*Builder, error) {
	b := &Builder{Ctx: ctx, Planner: p, Kind: k, Own: p.KindOf(k.GVR), Scope: scope, Query: q, Projection: projection.New(q.Project)}
	if err := b.build(); err != nil {
		return nil, err
	}
	return b, nil
}

// HasData reports whether objects of a kind are whole in the scope of a namespace only, and there for those who may read
// the kind itself: for such a kind Scope.Data is to be found out.
func (p *Planner) HasData(k *store.Kind) bool { return p.store.DataByNamespace(k.GVR) }

// WithData reports whether a query sees the data of a kind that has it by namespace only.
func (p *Planner) WithData(k *store.Kind, scope Scope) bool {
	return scope.Data && scope.Namespace != "" && p.HasData(k)
}
