package resource

import (
	"context"
	"fmt"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/expression"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/store"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DefaultMaxItems is the longest list that is answered whole.
const DefaultMaxItems = 50_000

// Scope is where a query looks. The zero Scope is the whole cluster.
type Scope struct {
	// Namespace restricts it to one namespace.
	Namespace string
	// Workspace restricts it to objects that carry the workspace's label.
	Workspace string
	// Data says that the caller may read the kind itself, in the namespace: objects of kinds that keep their
	// data by namespace only (HasData) are then whole. Without it they are as anywhere else.
	Data bool
	// Part restricts it to what the caller may see, nil where that is everything.
	Part *authz.Part
}

// Options are the bounds of a Service.
type Options struct {
	// MaxItems is the longest answer; a longer one is refused with the advice to page
	// (DefaultMaxItems).
	MaxItems int
	// ServedOnly makes the routes that serve any kind serve, of custom resources, only those whose definition
	// is labelled so (false).
	ServedOnly bool
}

// Service answers queries. It checks no rights: who may not ask must not get here.
type Service struct {
	store   *store.Store
	kinds   map[schema.GroupResource]*kind
	results *results
	max     int

	servedOnly  bool
	derived     derivations
	expressions expression.Compiler
}

// New makes a service on s, which must have been made with Schemas.
func New(s *store.Store, o Options) *Service {
	if o.MaxItems <= 0 {
		o.MaxItems = DefaultMaxItems
	}
	return &Service{store: s, kinds: kinds(), results: newResults(), max: o.MaxItems, servedOnly: o.ServedOnly}
}

// Catalog returns what is known of the kinds.
func (s *Service) Catalog() *store.Catalog { return s.store.Catalog() }

// none is what a kind without anything of its own has.
var none kind

func (s *Service) own(gvr schema.GroupVersionResource) *kind {
	if k := s.kinds[gvr.GroupResource()]; k != nil {
		return k
	}
	return &none
}

// List answers a query for objects of a kind in a scope, from one moment of the cache.
func (s *Service) List(ctx context.Context, k *store.Kind, scope Scope, q *query.Query) (*Page, error) {
	if err := reachable(k, scope); err != nil {
		return nil, err
	}
	b := &builder{ctx: ctx, service: s, kind: k, own: s.own(k.GVR), scope: scope, query: q}
	if err := b.build(); err != nil {
		return nil, err
	}
	snap, err := s.snapshotOf(ctx, k, scope, q.Version)
	if err != nil {
		return nil, err
	}
	m, err := s.find(snap, b)
	if err != nil {
		return nil, err
	}
	start, n := q.Window(m.len())
	if n > s.max {
		return nil, tooMany(k, n, s.max)
	}
	p := &Page{
		Total: m.len(), Remaining: m.len() - start - n, Generation: snap.Generation(),
		ResourceVersion: snap.ResourceVersion(), Partial: scope.Part != nil, kind: k,
	}
	if n == 0 {
		p.Remaining = 0
		return p, nil
	}
	p.items = make([]string, 0, n)
	m.page(start, n, !q.Ascending, func(ref *store.Ref) {
		p.items = append(p.items, snap.Record(ref).JSON)
	})
	return p, nil
}

// Get returns one object. In the scope of a workspace, only one that carries its label is there.
func (s *Service) Get(ctx context.Context, k *store.Kind, scope Scope, name string) (*Object, error) {
	if err := reachable(k, scope); err != nil {
		return nil, err
	}
	snap, err := s.snapshotOf(ctx, k, scope, "")
	if err != nil {
		return nil, err
	}
	gr := k.GVR.GroupResource()
	if k.Namespaced && scope.Namespace == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s are in namespaces: name one in the path", gr))
	}
	r, ok := snap.Get(scope.Namespace, name)
	if ok && scope.Workspace != "" {
		if ok, err = s.belongs(ctx, k, r, scope.Workspace); err != nil {
			return nil, err
		}
	}
	if !ok {
		return nil, apierrors.NewNotFound(gr, name)
	}
	return &Object{JSON: r.JSON, ResourceVersion: r.ResourceVersion}, nil
}

// reachable tells why a kind can't be asked for in a scope.
func reachable(k *store.Kind, scope Scope) error {
	gr := k.GVR.GroupResource()
	if scope.Namespace != "" && !k.Namespaced {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
			Message: fmt.Sprintf("%s are not in namespaces", gr),
			Details: &metav1.StatusDetails{Group: gr.Group, Kind: gr.Resource},
		}}
	}
	if !k.Cacheable() {
		return apierrors.NewMethodNotSupported(gr, "list")
	}
	return nil
}

func tooMany(k *store.Kind, n, most int) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusRequestEntityTooLarge, Reason: metav1.StatusReasonRequestEntityTooLarge,
		Message: fmt.Sprintf("%d %s are more than the %d that one answer may have: ask for pages with limit and page", n, k.GVR.GroupResource(), most),
		Details: &metav1.StatusDetails{Group: k.GVR.Group, Kind: k.GVR.Resource},
	}}
}
