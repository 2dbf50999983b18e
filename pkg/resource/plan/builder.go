package plan

import (
	"context"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/resource/projection"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Builder builds the plan of a query. The plan function of a kind may add to it.
type Builder struct {
	Plan

	Ctx     context.Context
	Planner *Planner
	Kind    *store.Kind
	Own     *Kind
	Scope   Scope
	Query   *query.Query
	Owners  []string // UIDs besides the requested owner
	varies  []byte
	Depends []dependency // what it was made from, for watches

	workspace *workspaceScope // nil where no workspace is asked for, or one namespace

	Projection *projection.Projection // nil for whole objects
}

// build builds the plan. The scope's conditions come first and the expression last, so that no filter of the caller's tests
// an object that is out of scope.
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
	if b.Query.Filtered(b.Planner.filterParams(b.Own)) {
		if err := b.filters(); err != nil {
			return err
		}
	}
	if len(b.Query.SortBy) == 0 {
		return nil // by creation, the order of the zero value
	}
	var err error
	b.Order, err = orderOf(b.Query, b.Own, !b.Kind.Namespaced || b.Namespace != "")
	return err
}

func (b *Builder) scoped() error {
	if only := b.Scope.Only; only != nil {
		b.Label(only.Label)
		b.Check(only.Holds)
	}
	if b.Scope.PartialList != nil {
		if err := b.inPartialList(b.Scope.PartialList); err != nil {
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

// Vary adds to what the outcome depends on, besides the parameters and the kind's own objects.
func (b *Builder) Vary(s string) { b.varies = lru.AppendPart(b.varies, s) }

// Check adds a condition that no index answers.
func (b *Builder) Check(holds func(*index.Record) bool) {
	b.Conditions = append(b.Conditions, Condition{Holds: holds})
}

// indexed adds a condition that holds for the objects of the terms, and for no others.
func (b *Builder) indexed(holds func(*index.Record) bool, terms ...index.Term) {
	b.Conditions = append(b.Conditions, Condition{Terms: terms, Holds: holds})
}

// Narrowed adds a condition that holds only for objects of the terms, but not for all: the terms say where to look, and are
// never the answer. Without terms all objects are tested.
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

// appendKey appends a text that is equal for queries with the same matches, in the same order, on the same snapshot. It
// contains all of the scope: a result must never be that of another partial list.
func (b *Builder) appendKey(key []byte) []byte {
	part := ""
	if b.Scope.PartialList != nil {
		part = "part " + b.Scope.PartialList.Key
	}
	gvr := b.Kind.GVR
	for _, s := range [...]string{gvr.Group, gvr.Version, gvr.Resource, b.Scope.Namespace, b.Scope.Workspace, part, b.Scope.Only.name()} {
		key = lru.AppendPart(key, s)
	}
	key = append(lru.AppendPart(key, strconv.Itoa(len(b.varies))), b.varies...)
	if b.workspace == nil {
		key = append(key, '-')
	} else {
		key = b.workspace.appendKey(key)
	}
	return b.Query.AppendKey(key, b.Planner.filterParams(b.Own))
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
	if q.Reduced {
		key = append(key, 'r')
	}
	if q.Last {
		key = append(key, 'a')
	}
	key = strconv.AppendInt(append(key, 'l'), int64(q.Limit), 10)
	key = strconv.AppendInt(append(key, 'n'), int64(q.Page), 10)
	if q.Cursor != nil {
		key = strconv.AppendQuote(append(key, 'c'), q.Cursor.String())
	}
	key = strconv.AppendInt(append(key, 'o'), int64(q.Offset), 10)
	if q.Keys {
		key = strconv.AppendInt(append(key, 'e'), int64(q.Every), 10)
	}
	return lru.ShortKey(strconv.AppendBool(append(key, 'u'), q.Ascending))
}

// Projected returns an object with the fields that the query asks for.
func (b *Builder) Projected(object redaction.Shown) string {
	if b.Projection == nil {
		return object.String()
	}
	return string(b.Projection.Append(nil, object.String()))
}

// Stale reports whether a namespace was recorded since the plan was built, so that it must be built again.
func (b *Builder) Stale() bool {
	return b.workspace != nil && b.Planner.outsiders.of(b.workspace.workspace) != b.workspace.known
}
