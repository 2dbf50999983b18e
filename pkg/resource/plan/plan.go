package plan

import (
	"context"
	"strconv"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/resource/projection"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Condition is one thing that must hold of an object.
type Condition struct {
	// Terms are how an index finds the objects, of which any suffices; empty where no index does. One term
	// alone finds exactly the objects for which the condition holds.
	Terms []index.Term
	// without are how an index finds the objects that don't match: all others do.
	without []index.Term
	// label is the key of the label that decides by its being there, or with lacks by its absence.
	label string
	lacks bool
	// Holds checks one object.
	Holds func(*index.Record) bool
}

// Plan is what is to be done for a query.
type Plan struct {
	// Namespace restricts everything to one, base is its term, or the one of all objects.
	Namespace  string
	base       index.Term
	Conditions []Condition
	// named are the only names that can match, nil for any.
	named map[string]struct{}
	// texts are in the name, the alias or the searched field of whatever matches, and words in its name, or in a
	// label or an annotation: where an index of texts can be asked.
	texts, words []string
	// Never says that nothing can match.
	Never bool
	Order Order
	// Fault tells why what holds said since fault was asked last can't be used, nil where it can. It is nil
	// where holds can't fail. Whoever has asked holds of all objects that he wants to know of asks fault.
	Fault func() error
}

// Failed asks fault, where there is one.
func (p *Plan) Failed() error {
	if p.Fault == nil {
		return nil
	}
	return p.Fault()
}

// Builder makes a plan of a query. The plan function of a kind may add to it.
type Builder struct {
	Plan

	Ctx     context.Context
	Planner *Planner
	Kind    *store.Kind
	Own     *Kind
	Scope   Scope
	Query   *query.Query
	Owners  []string // UIDs beside the owner that is asked for
	varies  []byte
	Depends []dependency // what it was made from, for watches

	workspace *workspaceScope // nil where no workspace is asked for, or one namespace

	Projection *projection.Projection // nil for whole objects
}

// build makes the plan. What the scope says comes first and the expression last, so that no filter of the
// caller's looks at an object that is out of scope.
func (b *Builder) build() error {
	b.base = index.All()
	if b.Namespace = b.Scope.Namespace; b.Namespace != "" {
		b.base = index.InNamespace(b.Namespace)
	}
	if b.Planner.WithData(b.Kind, b.Scope) {
		b.Vary("data") // it is of another cache
	}
	if err := b.scoped(); err != nil {
		return err
	}
	if b.Own.Plan != nil {
		if err := b.Own.Plan(b); err != nil {
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
	b.Order, err = orderOf(b.Query, b.Own, !b.Kind.Namespaced || b.Namespace != "")
	return err
}

func (b *Builder) scoped() error {
	if b.Scope.Part != nil {
		if err := b.inPart(b.Scope.Part); err != nil {
			return err
		}
	}
	if b.Scope.Workspace != "" {
		return b.inWorkspace(b.Scope.Workspace)
	}
	return nil
}

// Snapshot returns the objects of another kind, for the plan function of a kind.
func (b *Builder) Snapshot(gvr schema.GroupVersionResource) (*index.Snapshot, error) {
	snap, err := b.Planner.store.Snapshot(b.Ctx, gvr)
	if err == nil {
		b.depend(gvr, snap.Generation())
	}
	return snap, err
}

// Vary says what the outcome depends on, beside the parameters and the kind's own objects.
func (b *Builder) Vary(s string) { b.varies = lru.AppendPart(b.varies, s) }

func (b *Builder) Check(holds func(*index.Record) bool) {
	b.Conditions = append(b.Conditions, Condition{Holds: holds})
}

// indexed adds a condition that holds of the objects of the terms, and of no other.
func (b *Builder) indexed(holds func(*index.Record) bool, terms ...index.Term) {
	b.Conditions = append(b.Conditions, Condition{Terms: terms, Holds: holds})
}

// Narrowed adds a condition that holds only of objects of the terms, but not of all: the terms say where to look,
// and are never the answer. Without terms it looks everywhere.
func (b *Builder) Narrowed(holds func(*index.Record) bool, terms ...index.Term) {
	if len(terms) > 0 {
		b.indexed(func(*index.Record) bool { return true }, terms...)
	}
	b.Check(holds)
}

// Names narrows the names that can match.
func (b *Builder) Names(names map[string]struct{}) {
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
func (b *Builder) appendKey(key []byte) []byte {
	part := ""
	if b.Scope.Part != nil {
		part = "part " + b.Scope.Part.Key
	}
	gvr := b.Kind.GVR
	for _, s := range [...]string{gvr.Group, gvr.Version, gvr.Resource, b.Scope.Namespace, b.Scope.Workspace, part} {
		key = lru.AppendPart(key, s)
	}
	key = b.workspace.appendKey(append(lru.AppendPart(key, strconv.Itoa(len(b.varies))), b.varies...))
	params, ok := b.Planner.params[b.Own]
	if !ok {
		params = b.Own.filterParams()
	}
	return b.Query.AppendKey(key, params)
}

// ResultKey appends to dst a text that is equal for queries with the same matches in the same order, and
// the same facets.
func (b *Builder) ResultKey(dst []byte) []byte {
	key := b.appendKey(dst)
	for _, p := range b.Query.Facets {
		key = strconv.AppendQuote(append(key, 'f'), p.String())
	}
	return lru.ShortKey(key)
}

// PageKey appends to dst a text that is equal for queries whose pages are the same on one snapshot.
func (b *Builder) PageKey(dst []byte) []byte {
	q := b.Query
	key := append(b.appendKey(dst), 0)
	for _, p := range q.Facets {
		key = strconv.AppendQuote(append(key, 'f'), p.String())
	}
	if b.Projection != nil {
		key = strconv.AppendQuote(append(key, 'p'), b.Projection.Key)
	}
	key = strconv.AppendInt(append(key, 'l'), int64(q.Limit), 10)
	key = strconv.AppendInt(append(key, 'n'), int64(q.Page), 10)
	return lru.ShortKey(strconv.AppendBool(append(key, 'u'), q.Ascending))
}

// Projected is an object as the query wants to see it.
func (b *Builder) Projected(object redaction.Shown) string {
	if b.Projection == nil {
		return object.String()
	}
	return string(b.Projection.Append(nil, object.String()))
}
