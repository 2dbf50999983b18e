package resource

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// HeaderPartial is the header, with the value true, of an answer that shows only a part of what there is, because
// the caller may see no more: Page.Partial.
const HeaderPartial = "X-Kapis-Partial"

// ErrNotVisible says that a caller who may see a part of the cluster may see no object of this kind. It is a 403;
// who answers the request makes authz.Denied of it, which says more.
var ErrNotVisible error = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
	Message: "no object of this kind can be seen by the caller",
}}

// workspaceLabel says which workspace an object belongs to.
const workspaceLabel = "kubesphere.io/workspace"

const tenantGroup = "tenant.kubesphere.io"

var namespacesKind = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// namespaceOwners says which workspace each namespace is in. It does not change.
type namespaceOwners struct {
	of    map[string]string       // namespace -> workspace, for those that are in one
	terms map[string][]index.Term // workspace -> where an index finds its objects, and perhaps others
	// digest is equal for equal tenancies, digests are equal for equal namespaces of a workspace.
	digest  string
	digests map[string]httpcache.Digest
	// from is the generation of the namespaces that it was made from.
	from uint64
}

// namespaceOwners returns the owners as they are now. They are made again when a namespace changes.
func (s *Service) namespaceOwners(ctx context.Context) (*namespaceOwners, error) {
	snap, err := s.store.Snapshot(ctx, namespacesKind)
	if err != nil {
		return nil, err
	}
	return memoize(&s.memo, "tenancy", snap, func() *namespaceOwners { return namespaceOwnersOf(snap) }), nil
}

func namespaceOwnersOf(snap *index.Snapshot) *namespaceOwners {
	t := &namespaceOwners{of: map[string]string{}, terms: map[string][]index.Term{}, digests: map[string]httpcache.Digest{}, from: snap.Generation()}
	names, hash, pair := map[string][]byte{}, sha256.New(), []byte(nil)
	snap.ByName(index.All()).Walk(0, false, func(ref *index.Ref) bool {
		workspace, _ := snap.Record(ref).Labels.Get(workspaceLabel)
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
		t.terms[workspace] = append(terms, index.HasLabel(workspaceLabel, workspace))
		t.digests[workspace] = sha256.Sum256(names[workspace])
	}
	t.digest = string(hash.Sum(nil))
	return t
}

// has tells whether an object belongs to a workspace: by its namespace where that is in one, else by its own
// label. So nobody puts an object into another workspace by labelling it in a namespace of his own.
func (t *namespaceOwners) has(r *index.Record, workspace string) bool {
	if owner := t.of[r.Namespace]; owner != "" {
		return owner == workspace
	}
	label, _ := r.Labels.Get(workspaceLabel)
	return label == workspace
}

// inWorkspace restricts the plan to the objects of a workspace.
func (b *builder) inWorkspace(workspace string) error {
	label := query.Requirement{Key: workspaceLabel, Op: query.In, Values: []string{workspace}}
	if !b.kind.Namespaced {
		b.label(label)
		return nil
	}
	t, err := b.service.namespaceOwners(b.ctx)
	if err != nil {
		return err
	}
	b.depend(namespacesKind, t.from)
	if b.namespace != "" {
		switch t.of[b.namespace] {
		case workspace:
			b.vary("all of it")
		case "":
			b.vary("what is labelled")
			b.label(label)
		default:
			b.vary("nothing")
			b.never = true
		}
		return nil
	}
	b.workspace = &workspaceScope{namespaceOwners: t, workspace: workspace, known: b.service.outsiders.of(workspace)}
	terms := t.terms[workspace]
	if terms == nil { // without a namespace
		terms = []index.Term{index.HasLabel(workspaceLabel, workspace)}
	}
	b.narrowed(b.belongsToWorkspace, terms...)
	return nil
}

// namespaceSet are namespaces, and how an index finds their objects.
type namespaceSet struct {
	names map[string]struct{}
	terms []index.Term
}

func newNamespaceSet(names []string) *namespaceSet {
	s := &namespaceSet{names: setOf(names), terms: make([]index.Term, len(names))}
	for i, n := range names {
		s.terms[i] = index.InNamespace(n)
	}
	return s
}

func setOf(names []string) map[string]struct{} {
	out := make(map[string]struct{}, len(names))
	for _, n := range names {
		out[n] = struct{}{}
	}
	return out
}

// partKey is the key of what is derived from a Part.
type partKey struct{ key, of string }

// inPart restricts the plan to what the caller may see.
func (b *builder) inPart(p *authz.PartialList) error {
	gr, derived := b.kind.GVR.GroupResource(), &b.service.memo
	switch {
	case b.kind.Namespaced && b.namespace != "":
		_, ok := slices.BinarySearch(p.Namespaces, b.namespace)
		b.never = b.never || !ok
	case b.kind.Namespaced && len(p.Namespaces) == 0:
		b.never = true
	case b.kind.Namespaced:
		set := memoize(derived, partKey{p.Key, "namespaces"}, nil, func() *namespaceSet { return newNamespaceSet(p.Namespaces) })
		b.indexed(func(r *index.Record) bool {
			_, ok := set.names[r.Namespace]
			return ok
		}, set.terms...)
	case gr == core("namespaces"):
		b.names(memoize(derived, partKey{p.Key, "names"}, nil, func() map[string]struct{} { return setOf(p.Namespaces) }))
	case gr == in(tenantGroup, "workspaces"), gr == in(tenantGroup, "workspacetemplates"):
		b.names(memoize(derived, partKey{p.Key, "workspaces"}, nil, func() map[string]struct{} { return setOf(p.Workspaces) }))
	case gr == in("cluster.kubesphere.io", "clusters"), gr == in(iamGroup, "users"):
		b.names(memoize(derived, partKey{p.Key, "objects"}, nil, func() map[string]struct{} { return setOf(p.Names) }))
	case len(p.Workspaces) == 0:
		return ErrNotVisible
	default:
		b.label(query.Requirement{Key: workspaceLabel, Op: query.In, Values: p.Workspaces})
	}
	return nil
}

// belongs tells whether an object of a kind belongs to a workspace.
func (s *Service) belongs(ctx context.Context, k *store.Kind, r *index.Record, workspace string) (bool, error) {
	if !k.Namespaced {
		return new(namespaceOwners).has(r, workspace), nil
	}
	t, err := s.namespaceOwners(ctx)
	if err != nil {
		return false, err
	}
	return t.has(r, workspace), nil
}
