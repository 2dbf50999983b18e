package binding

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/admission"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Rights returns what a user is bound to. rbac.Index is one.
type Rights interface {
	Held(u user.Info, at authz.BindingScope) []authz.Grant
}

// Guard refuses writes that would grant more than their writer holds. admission.Guard is one.
type Guard interface {
	Check(ctx context.Context, w *admission.Write) error
}

// Caches returns the objects of kinds, also at a version or after a deletion. store.Store is one.
type Caches interface {
	Snapshot(ctx context.Context, gvr schema.GroupVersionResource) (*index.Snapshot, error)
	SnapshotAt(ctx context.Context, gvr schema.GroupVersionResource, version string) (*index.Snapshot, error)
	SnapshotWithout(ctx context.Context, gvr schema.GroupVersionResource, namespace, name, uid string) (*index.Snapshot, error)
}

// Service reads which role a user has at a scope, and changes it as the caller.
type Service struct {
	Rights   Rights
	Guard    Guard
	Caches   Caches
	AsCaller caller.Client
}

// Exists returns a 404 if there is no such workspace or namespace. A workspace exists as soon as its template does.
func (b *Service) Exists(ctx context.Context, at authz.BindingScope) error {
	var gvrs []schema.GroupVersionResource
	name := at.Namespace
	switch at.Scope {
	case request.Workspace:
		name = at.Workspace
		tenant := tenantv1beta1.SchemeGroupVersion
		gvrs = []schema.GroupVersionResource{tenant.WithResource("workspaces"), tenant.WithResource("workspacetemplates")}
	case request.Namespace:
		gvrs = []schema.GroupVersionResource{{Version: "v1", Resource: "namespaces"}}
	default:
		return nil
	}
	for _, gvr := range gvrs {
		snap, err := b.Caches.Snapshot(ctx, gvr)
		if err != nil {
			return err
		}
		if _, ok := snap.Get("", name); ok {
			return nil
		}
	}
	return apierrors.NewNotFound(gvrs[0].GroupResource(), name)
}

// Role returns the object of a role. Roles of other workspaces are not found.
func (b *Service) Role(ctx context.Context, l *Scope, at authz.BindingScope, name string) (*index.Record, error) {
	snap, err := b.Caches.Snapshot(ctx, wire.Resource(l.RoleResource))
	if err != nil {
		return nil, err
	}
	r, ok := snap.Get(at.Namespace, name)
	if ok && l.Kind == request.Workspace {
		of, labelled := r.Labels.Get(tenantv1beta1.LabelWorkspace)
		ok = !labelled || of == at.Workspace
	}
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: wire.Group, Resource: l.RoleResource}, name)
	}
	return r, nil
}

// RoleAt returns the role that answers show for a user: the one asked for if the user has it, otherwise that of the first binding.
func (b *Service) RoleAt(name string, at authz.BindingScope, asked string) string {
	role := ""
	for _, g := range b.Rights.Held(WithoutGroups(name), at) {
		if g.Role.Name == asked {
			return asked
		}
		if role == "" {
			role = g.Role.Name
		}
	}
	return role
}

// WithoutGroups returns a user without groups: to find what is bound to the user by name.
func WithoutGroups(name string) user.Info { return &user.DefaultInfo{Name: name} }
