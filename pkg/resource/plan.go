package resource

import (
	"context"
	"strconv"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// condition is one thing that must hold of an object.
type condition struct {
	// terms are how an index finds the objects, of which any suffices; empty where no index does. One term
	// alone finds exactly the objects for which the condition holds.
	terms []index.Term
	// without are how an index finds the objects that don't match: all others do.
	without []index.Term
	// label is the key of the label that decides by its being there, or with lacks by its absence.
	label string
	lacks bool
	// holds checks one object.
	holds func(*index.Record) bool
}

// plan is what is to be done for a query.
type plan struct {
	// namespace restricts everything to one, base is its term, or the one of all objects.
	namespace  string
	base       index.Term
	conditions []condition
	// named are the only names that can match, nil for any.
	named map[string]struct{}
	// texts are in the name, the alias or the searched field of whatever matches, and words in its name, or in a
	// label or an annotation: where an index of texts can be asked.
	texts, words []string
	// never says that nothing can match.
	never bool
	order order
	// fault tells why what holds said since fault was asked last can't be used, nil where it can. It is nil
	// where holds can't fail. Whoever has asked holds of all objects that he wants to know of asks fault.
	fault func() error
}

// failed asks fault, where there is one.
func (p *plan) failed() error {
	if p.fault == nil {
		return nil
	}
	return p.fault()
}

// builder makes a plan of a query. The plan function of a kind may add to it.
type builder struct {
	plan

	ctx     context.Context
	service *Service
	kind    *store.Kind
	own     *kind
	scope   Scope
	query   *query.Query
	owners  []string // UIDs beside the owner that is asked for
	varies  []byte
	depends []dependency // what it was made from, for watches

	workspace *workspaceScope // nil where no workspace is asked for, or one namespace

	projection *projection // nil for whole objects
}

// build makes the plan. What the scope says comes first and the expression last, so that no filter of the
// caller's looks at an object that is out of scope.
func (b *builder) build() error {
	b.base = index.All()
	if b.namespace = b.scope.Namespace; b.namespace != "" {
		b.base = index.InNamespace(b.namespace)
	}
	if b.service.withData(b.kind, b.scope) {
		b.vary("data") // it is of another cache
	}
	if err := b.scoped(); err != nil {
		return err
	}
	if b.own.plan != nil {
		if err := b.own.plan(b); err != nil {
			return err
		}
	}
	b.metadata()
	b.labels()
	b.ownFilters()
	b.fields()
	b.freeText()
	if err := b.expression(); err != nil {
		return err
	}
	var err error
	b.order, err = orderOf(b.query, b.own, !b.kind.Namespaced || b.namespace != "")
	return err
}

func (b *builder) scoped() error {
	if b.scope.Part != nil {
		if err := b.inPart(b.scope.Part); err != nil {
			return err
		}
	}
	if b.scope.Workspace != "" {
		return b.inWorkspace(b.scope.Workspace)
	}
	return nil
}

// snapshot returns the objects of another kind, for the plan function of a kind.
func (b *builder) snapshot(gvr schema.GroupVersionResource) (*index.Snapshot, error) {
	snap, err := b.service.store.Snapshot(b.ctx, gvr)
	if err == nil {
		b.depend(gvr, snap.Generation())
	}
	return snap, err
}

// vary says what the outcome depends on, beside the parameters and the kind's own objects.
func (b *builder) vary(s string) { b.varies = lru.AppendPart(b.varies, s) }

func (b *builder) check(holds func(*index.Record) bool) {
	b.conditions = append(b.conditions, condition{holds: holds})
}

// indexed adds a condition that holds of the objects of the terms, and of no other.
func (b *builder) indexed(holds func(*index.Record) bool, terms ...index.Term) {
	b.conditions = append(b.conditions, condition{terms: terms, holds: holds})
}

// narrowed adds a condition that holds only of objects of the terms, but not of all: the terms say where to look,
// and are never the answer. Without terms it looks everywhere.
func (b *builder) narrowed(holds func(*index.Record) bool, terms ...index.Term) {
	if len(terms) > 0 {
		b.indexed(func(*index.Record) bool { return true }, terms...)
	}
	b.check(holds)
}

// names narrows the names that can match.
func (b *builder) names(names map[string]struct{}) {
	if b.named == nil {
		b.named = names
		return
	}
	both := map[string]struct{}{}
	for n := range names {
		if _, ok := b.named[n]; ok {
			both[n] = struct{}{}
		}
	}
	b.named = both
}

// appendKey appends a text that is equal for queries with the same matches, in the same order, on the
// same snapshot. It has everything of the scope: a result must never be that of another part.
func (b *builder) appendKey(key []byte) []byte {
	part := ""
	if b.scope.Part != nil {
		part = "part " + b.scope.Part.Key
	}
	gvr := b.kind.GVR
	for _, s := range [...]string{gvr.Group, gvr.Version, gvr.Resource, b.scope.Namespace, b.scope.Workspace, part} {
		key = lru.AppendPart(key, s)
	}
	key = b.workspace.appendKey(append(lru.AppendPart(key, strconv.Itoa(len(b.varies))), b.varies...))
	params, ok := b.service.params[b.own]
	if !ok {
		params = b.own.filterParams()
	}
	return b.query.AppendKey(key, params)
}
