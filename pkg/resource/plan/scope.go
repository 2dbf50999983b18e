package plan

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrNotVisible is the error for a caller who may see a part of the cluster, but no object of this kind. It is a 403; the
// handler makes authz.Forbidden of it, which says more.
var ErrNotVisible = status.Forbiddenf("no object of this kind can be seen by the caller")

// WorkspaceLabel is the label of the workspace that an object belongs to.
const WorkspaceLabel = "kubesphere.io/workspace"

const tenantGroup = "tenant.kubesphere.io"

var namespacesKind = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// namespaceOwners says which workspace each namespace is in. It does not change.
type namespaceOwners struct {
	of    map[string]string       // namespace -> workspace, for those that are in one
	terms map[string][]index.Term // workspace -> how an index finds its objects, and perhaps others
	// digest is equal for equal tenancies, digests are equal for equal namespaces of a workspace.
	digest  string
	digests map[string]httpcache.Digest
	// from is the generation of the namespaces that it was made from.
	from uint64
}

// NamespaceOwners returns the present owners. They are computed again when a namespace changes.
func (s *Planner) NamespaceOwners(ctx context.Context) (*namespaceOwners, error) {
	snap, err := s.store.Snapshot(ctx, namespacesKind)
	if err != nil {
		return nil, err
	}
	return Memoize(&s.Memo, "tenancy", snap, func() *namespaceOwners { return namespaceOwnersOf(snap) }), nil
}

func namespaceOwnersOf(snap *index.Snapshot) *namespaceOwners {
	t := &namespaceOwners{of: map[string]string{}, terms: map[string][]index.Term{}, digests: map[string]httpcache.Digest{},
		from: snap.Generation()}
	names, hash, pair := map[string][]byte{}, sha256.New(), []byte(nil)
	snap.ByName(index.All()).Walk(0, false, func(ref *index.Ref) bool {
		workspace, _ := snap.Record(ref).Labels.Get(WorkspaceLabel)
		if workspace == "" {
			return true
		}
		t.of[ref.Name] = workspace
		t.terms[workspace] = append(t.terms[workspace], index.InNamespace(ref.Name))
		names[workspace] = lru.AppendPart(names[workspace], ref.Name)
		pair = lru.AppendPart(lru.AppendPart(pair[:0], ref.Name), workspace)
		hash.Write(pair)
		return true
	})
	for workspace, terms := range t.terms {
		t.terms[workspace] = append(terms, index.HasLabel(WorkspaceLabel, workspace))
		t.digests[workspace] = sha256.Sum256(names[workspace])
	}
	t.digest = string(hash.Sum(nil))
	return t
}

// Has reports whether an object belongs to a workspace: by its namespace where that is in one, else by its own label. So a
// user can't put an object into another workspace by labelling it in a namespace of their own.
func (t *namespaceOwners) Has(r *index.Record, workspace string) bool {
	if owner := t.of[r.Namespace]; owner != "" {
		return owner == workspace
	}
	label, _ := r.Labels.Get(WorkspaceLabel)
	return label == workspace
}

// inWorkspace restricts the plan to the objects of a workspace.
func (b *Builder) inWorkspace(workspace string) error {
	label := query.Requirement{Key: WorkspaceLabel, Op: query.In, Values: []string{workspace}}
	if !b.Kind.Namespaced {
		b.Label(label)
		return nil
	}
	t, err := b.Planner.NamespaceOwners(b.Ctx)
	if err != nil {
		return err
	}
	b.depend(namespacesKind, t.from)
	if b.Namespace != "" {
		switch t.of[b.Namespace] {
		case workspace:
			b.Vary("all of it")
		case "":
			b.Vary("what is labelled")
			b.Label(label)
		default:
			b.Vary("nothing")
			b.Never = true
		}
		return nil
	}
	b.workspace = &workspaceScope{namespaceOwners: t, workspace: workspace, known: b.Planner.outsiders.of(workspace)}
	terms := t.terms[workspace]
	if terms == nil { // without a namespace
		terms = []index.Term{index.HasLabel(WorkspaceLabel, workspace)}
	}
	b.Narrowed(b.belongsToWorkspace, terms...)
	return nil
}

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

// Belongs reports whether an object of a kind belongs to a workspace.
func (s *Planner) Belongs(ctx context.Context, k *store.Kind, r *index.Record, workspace string) (bool, error) {
	if !k.Namespaced {
		return new(namespaceOwners).Has(r, workspace), nil
	}
	t, err := s.NamespaceOwners(ctx)
	if err != nil {
		return false, err
	}
	return t.Has(r, workspace), nil
}

// Scope is the scope of a query. The zero Scope is the whole cluster.
type Scope struct {
	// Namespace restricts it to one namespace.
	Namespace string
	// Workspace restricts it to objects that carry the workspace's label.
	Workspace string
	// Data says that the caller may read the kind itself, in the namespace: objects of kinds whose data is cached by
	// namespace only (HasData) are then whole. Without it they are without data, as anywhere else.
	Data bool
	// CutKeys says that the caller may list all objects of the kind itself: those of HasData are then shown with the keys of their data,
	// where they are without it.
	CutKeys bool
	// Only restricts it to a subset of the kind, nil for all of its objects.
	Only *Subset
	// PartialList restricts it to what the caller may see, nil where that is everything.
	PartialList *authz.PartialList
	// MayList reports whether the caller may list all objects of another kind, in the whole cluster; nil where they may not.
	// Only such callers see how many claims a storage class has.
	MayList func(ctx context.Context, gvr schema.GroupVersionResource) bool
}

// Subset is the objects of a kind that a route shows as a kind of its own. No query of it tests, counts or shows another object.
type Subset struct {
	// Name distinguishes it from all other subsets of the kind: equal names are equal subsets.
	Name string
	// Label is what its objects have, by which an index finds them, and Holds reports what they have besides.
	Label query.Requirement
	Holds func(*index.Record) bool
}

// Has reports whether an object is in the subset; all are in nil.
func (s *Subset) Has(r *index.Record) bool {
	return s == nil || s.Label.Match(r.Labels.Get(s.Label.Key)) && s.Holds(r)
}

// name returns its name, empty for nil.
func (s *Subset) name() string {
	if s == nil {
		return ""
	}
	return s.Name
}

// CheckScope returns why a kind can't be queried in a scope, or nil.
func CheckScope(k *store.Kind, scope Scope) error {
	gr := k.GVR.GroupResource()
	if scope.Namespace != "" && !k.Namespaced {
		return status.About(gr, "", status.Errorf(http.StatusNotFound, "%s are not in namespaces", gr))
	}
	if !k.Cacheable() {
		return apierrors.NewMethodNotSupported(gr, "list")
	}
	return nil
}
