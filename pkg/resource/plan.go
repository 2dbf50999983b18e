package resource

import (
	"context"
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// condition is one thing that must hold of an object.
type condition struct {
	// terms are how an index finds the objects, of which any suffices; empty where no index does.
	terms []store.Term
	// holds checks one object.
	holds func(*store.Record) bool
}

// plan is what is to be done for a query.
type plan struct {
	// namespace restricts everything to one, base is its term, or the one of all objects.
	namespace  string
	base       store.Term
	conditions []condition
	// named are the only names that can match, nil for any.
	named map[string]struct{}
	// never says that nothing can match.
	never bool
	order order
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
	owners  []string // UIDs beside the one that is asked for
	varies  []byte
}

// build makes the plan.
func (b *builder) build() error {
	b.base = store.All()
	if b.namespace = b.scope.Namespace; b.namespace != "" {
		b.base = store.InNamespace(b.namespace)
	}
	if b.scope.Workspace != "" {
		b.label(query.Requirement{Key: workspaceLabel, Op: query.In, Values: []string{b.scope.Workspace}})
	}
	if b.own.plan != nil {
		if err := b.own.plan(b); err != nil {
			return err
		}
	}
	b.metadata()
	b.labels()
	b.fields()
	b.ownFilters()
	var err error
	b.order, err = orderOf(b.query, b.own, !b.kind.Namespaced || b.namespace != "")
	return err
}

// snapshot returns the objects of another kind, for the plan function of a kind.
func (b *builder) snapshot(gvr schema.GroupVersionResource) (*store.Snapshot, error) {
	return b.service.store.Snapshot(b.ctx, gvr)
}

// vary says what the outcome depends on, beside the parameters and the kind's own objects.
func (b *builder) vary(s string) {
	b.varies = append(b.varies, s...)
	b.varies = append(b.varies, 0)
}

func (b *builder) check(holds func(*store.Record) bool) {
	b.conditions = append(b.conditions, condition{holds: holds})
}

func (b *builder) indexed(holds func(*store.Record) bool, terms ...store.Term) {
	b.conditions = append(b.conditions, condition{terms: terms, holds: holds})
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

// metadata adds the filters that every kind has.
func (b *builder) metadata() {
	q := b.query
	if q.Names != nil {
		b.names(q.Names)
	}
	if q.Namespace.Set {
		b.inNamespace(q.Namespace.Value)
	}
	if q.UID.Set {
		b.check(func(r *store.Record) bool { return r.UID == q.UID.Value })
	}
	for _, text := range q.Contains {
		b.contains(text)
	}
	if q.OwnerUID.Set {
		b.ownedBy(append([]string{q.OwnerUID.Value}, b.owners...))
	}
	if q.OwnerKind.Set {
		kind := q.OwnerKind.Value
		b.indexed(func(r *store.Record) bool {
			return slices.ContainsFunc(r.Owners(), func(o store.Owner) bool { return o.Kind == kind })
		}, store.OwnedByKind(kind))
	}
	for i := range q.Annotations {
		req := &q.Annotations[i]
		b.check(func(r *store.Record) bool { return req.Match(r.Annotations.Get(req.Key)) })
	}
}

func (b *builder) inNamespace(namespace string) {
	holds := func(r *store.Record) bool { return r.Namespace == namespace }
	if namespace == "" {
		b.check(holds)
		return
	}
	b.indexed(holds, store.InNamespace(namespace))
}

// contains looks for text in the name, in any case in the alias, and in the field that the kind
// names for this.
func (b *builder) contains(text string) {
	folded, also := strings.ToLower(text), b.own.nameField-1
	b.check(func(r *store.Record) bool {
		return strings.Contains(r.Name, text) ||
			r.Alias != "" && strings.Contains(strings.ToLower(r.Alias), folded) ||
			also >= 0 && strings.Contains(r.Fields[also], text)
	})
}

func (b *builder) ownedBy(uids []string) {
	terms := make([]store.Term, len(uids))
	for i, uid := range uids {
		terms[i] = store.OwnedBy(uid)
		if i > 0 {
			b.vary(uid)
		}
	}
	b.indexed(func(r *store.Record) bool {
		return slices.ContainsFunc(r.Owners(), func(o store.Owner) bool { return slices.Contains(uids, o.UID) })
	}, terms...)
}

// label adds a condition on one label.
func (b *builder) label(req query.Requirement) {
	holds := func(r *store.Record) bool { return req.Match(r.Labels.Get(req.Key)) }
	if req.Op != query.In {
		b.check(holds)
		return
	}
	terms := make([]store.Term, len(req.Values))
	for i, v := range req.Values {
		terms[i] = store.HasLabel(req.Key, v)
	}
	b.indexed(holds, terms...)
}

func (b *builder) labels() {
	for _, req := range b.query.Labels {
		b.label(req)
	}
	alternatives := b.query.Selectors
	if len(alternatives) == 1 {
		for _, req := range alternatives[0] {
			b.label(req)
		}
		return
	}
	if len(alternatives) > 1 {
		b.check(func(r *store.Record) bool {
			return slices.ContainsFunc(alternatives, func(all []query.Requirement) bool {
				for i := range all {
					if !all[i].Match(r.Labels.Get(all[i].Key)) {
						return false
					}
				}
				return true
			})
		})
	}
}

// fields adds the conditions on fields by their paths. Those of the key are found by index.
func (b *builder) fields() {
	for i := range b.query.Fields {
		f := &b.query.Fields[i]
		switch {
		case f.Op == query.Is && f.Path.Is("metadata", "name"):
			b.names(map[string]struct{}{f.Value: {}})
		case f.Op == query.Is && f.Path.Is("metadata", "namespace"):
			b.inNamespace(f.Value)
		default:
			b.check(func(r *store.Record) bool { return f.Match(rawjson.GetText(r.JSON, f.Path...)) })
		}
	}
}

// ownFilters adds the filters that the kind has.
func (b *builder) ownFilters() {
	for i, f := range b.own.fields {
		if f.match == matchNone {
			continue
		}
		want, ok := b.query.Param(f.name)
		if !ok {
			continue
		}
		switch f.match {
		case matchExact:
			holds := func(r *store.Record) bool { return r.Fields[i] == want }
			if want == "" {
				b.check(holds)
				continue
			}
			b.indexed(holds, store.FieldIs(i, want))
		case matchFold:
			any := strings.Split(want, "|")
			b.check(func(r *store.Record) bool {
				return slices.ContainsFunc(any, func(w string) bool { return strings.EqualFold(w, r.Fields[i]) })
			})
		case matchContains:
			b.check(func(r *store.Record) bool { return strings.Contains(r.Fields[i], want) })
		case matchMember:
			b.check(func(r *store.Record) bool {
				for line := range strings.SplitSeq(r.Fields[i], "\n") {
					if line == want && want != "" {
						return true
					}
				}
				return false
			})
		}
	}
}

// resultKey is equal for queries with the same outcome on the same snapshot.
func (b *builder) resultKey() string {
	key := make([]byte, 0, 128)
	for _, s := range [...]string{name(b.kind.GVR), b.scope.Namespace, b.scope.Workspace} {
		key = append(key, s...)
		key = append(key, 0)
	}
	key = append(key, b.varies...)
	return string(b.query.AppendKey(append(key, 0), b.own.filterParams()))
}

func name(gvr schema.GroupVersionResource) string {
	return gvr.Group + "/" + gvr.Version + "/" + gvr.Resource
}
