package plan

import (
	"slices"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrNotVisible is the error for a caller who may see a part of the cluster, but no object of this kind. It is a 403; the
// handler makes authz.Forbidden of it, which says more.
var ErrNotVisible = status.Forbiddenf("no object of this kind can be seen by the caller")

// namespaceSet are namespaces, and how an index finds their objects.
type namespaceSet struct {
	names map[string]struct{}
	terms []index.Term
}

func newNamespaceSet(names []string) *namespaceSet {
	s := &namespaceSet{names: SetOf(names), terms: make([]index.Term, len(names))}
	for i, n := range names {
		s.terms[i] = index.InNamespace(n)
	}
	return s
}

// SetOf returns names as a set.
func SetOf(names []string) map[string]struct{} {
	out := make(map[string]struct{}, len(names))
	for _, n := range names {
		out[n] = struct{}{}
	}
	return out
}

// partialKey is the key of what is derived from a partial list.
type partialKey struct{ key, of string }

// inPartialList restricts the plan to what the caller may see.
func (b *Builder) inPartialList(p *authz.PartialList) error {
	gr, derived := b.Kind.GVR.GroupResource(), &b.Planner.Memo
	switch {
	case b.Kind.Namespaced && b.Namespace != "":
		_, ok := slices.BinarySearch(p.Namespaces, b.Namespace)
		b.Never = b.Never || !ok
	case b.Kind.Namespaced && len(p.Namespaces) == 0:
		b.Never = true
	case b.Kind.Namespaced:
		set := Memoize(derived, partialKey{p.Key, "namespaces"}, nil, func() *namespaceSet { return newNamespaceSet(p.Namespaces) })
		b.indexed(func(r *index.Record) bool {
			_, ok := set.names[r.Namespace]
			return ok
		}, set.terms...)
	case gr == (schema.GroupResource{Resource: "namespaces"}):
		b.Names(Memoize(derived, partialKey{p.Key, "names"}, nil, func() map[string]struct{} { return SetOf(p.Namespaces) }))
	case gr == (schema.GroupResource{Group: tenantGroup, Resource: "workspaces"}),
		gr == (schema.GroupResource{Group: tenantGroup, Resource: "workspacetemplates"}):
		b.Names(Memoize(derived, partialKey{p.Key, "workspaces"}, nil, func() map[string]struct{} { return SetOf(p.Workspaces) }))
	case gr == (schema.GroupResource{Group: "cluster.kubesphere.io", Resource: "clusters"}),
		gr == (schema.GroupResource{Group: "iam.kubesphere.io", Resource: "users"}):
		b.Names(Memoize(derived, partialKey{p.Key, "objects"}, nil, func() map[string]struct{} { return SetOf(p.Names) }))
	case len(p.Workspaces) == 0:
		return ErrNotVisible
	default:
		b.Label(query.Requirement{Key: WorkspaceLabel, Op: query.In, Values: p.Workspaces})
	}
	return nil
}
