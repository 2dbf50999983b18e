package plan

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Scope is the scope of a query. The zero Scope is the whole cluster.
type Scope struct {
	// Namespace restricts it to one namespace.
	Namespace string
	// Workspace restricts it to objects that carry the workspace's label.
	Workspace string
	// Data says that the caller may read the kind itself, in the namespace: objects of kinds whose data is cached by
	// namespace only (HasData) are then whole. Without it they are without data, as anywhere else.
	Data bool
	// KeyCount says that the caller may list all objects of the kind itself: rows of Tables then say how many keys the data of those of
	// HasData has, where they are without it. JSON never has the keys: a client that writes back what it read would empty the values.
	KeyCount bool
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
