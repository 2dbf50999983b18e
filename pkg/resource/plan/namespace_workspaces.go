package plan

import (
	"context"
	"crypto/sha256"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
