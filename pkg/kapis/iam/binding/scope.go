// Package binding changes which role a user has at a scope, as the caller: it plans the writes of bindings, checks all of them, and
// sends them.
package binding

import (
	"context"
	"encoding/json"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/admission"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
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

// Scope is where a binding holds, with the names that its roles, bindings and members have in the API.
type Scope struct {
	// Kind is the scope as requests have it.
	Kind request.Scope
	// RoleResource and BindingResource are plurals, RoleKind is the kind of a role.
	RoleResource, BindingResource, RoleKind string
	// MemberResource is the resource of the member routes; empty on the platform, of which every user is a member.
	MemberResource string
	// PathPrefix stands before MemberResource in a path.
	PathPrefix string
	// RoleParam filters a list by role, NameParam by scope; Annotation has the role in an answer.
	RoleParam, NameParam, Annotation string
}

// The scopes at which members have roles. One workspace or namespace is an authz.BindingScope.
var (
	Platform = Scope{
		Kind: request.Global, RoleResource: "globalroles", BindingResource: "globalrolebindings", RoleKind: iamv1beta1.KindGlobalRole,
		RoleParam: "globalrole", Annotation: iamv1beta1.AnnotationGlobalRole,
	}
	Cluster = Scope{
		Kind: request.Cluster, RoleResource: "clusterroles", BindingResource: "clusterrolebindings", RoleKind: iamv1beta1.KindClusterRole,
		MemberResource: "clustermembers", RoleParam: "clusterrole", NameParam: "cluster", Annotation: iamv1beta1.AnnotationClusterRole,
	}
	Workspace = Scope{
		Kind: request.Workspace, RoleResource: "workspaceroles", BindingResource: "workspacerolebindings", RoleKind: iamv1beta1.KindWorkspaceRole,
		MemberResource: "workspacemembers", PathPrefix: "/workspaces/{workspace}",
		RoleParam: "workspacerole", NameParam: "workspace", Annotation: iamv1beta1.AnnotationWorkspaceRole,
	}
	Namespace = Scope{
		Kind: request.Namespace, RoleResource: "roles", BindingResource: "rolebindings", RoleKind: iamv1beta1.KindRole,
		MemberResource: "namespacemembers", PathPrefix: "/namespaces/{namespace}",
		RoleParam: "role", NameParam: "namespace", Annotation: iamv1beta1.AnnotationRole,
	}
)

// WorkspaceGroups stands for the GroupBindings of a workspace.
var WorkspaceGroups = Scope{Kind: request.Workspace, BindingResource: "groupbindings", PathPrefix: Workspace.PathPrefix,
	NameParam: Workspace.NameParam}

// pathOf returns kube-apiserver's path of a kind, in a namespace if the scope has one.
func pathOf(plural, namespace string) string {
	path := "/apis/" + wire.Group + "/" + wire.Version
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + plural
}

// Value returns what NameParam is for one scope of this kind.
func (l *Scope) Value(at authz.BindingScope) string {
	switch l.Kind {
	case request.Workspace:
		return at.Workspace
	case request.Namespace:
		return at.Namespace
	}
	return "true"
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

// object returns the binding that gives a role to one user.
func (l *Scope) object(at authz.BindingScope, name, username, role string) ([]byte, error) {
	labels := map[string]string{}
	for key, value := range map[string]string{
		iamv1beta1.LabelUserReference: username, iamv1beta1.LabelRoleReference: role, tenantv1beta1.LabelWorkspace: at.Workspace,
	} {
		if value != "" && isLabelValue(value) {
			labels[key] = value
		}
	}
	metadata := map[string]any{"name": name, "labels": labels}
	if at.Namespace != "" {
		metadata["namespace"] = at.Namespace
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": wire.Group + "/" + wire.Version, "kind": l.RoleKind + "Binding", "metadata": metadata,
		"subjects": []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: username}},
		"roleRef":  rbacv1.RoleRef{APIGroup: wire.Group, Kind: l.RoleKind, Name: role},
	})
	if err != nil {
		return nil, fmt.Errorf("make a binding of %s: %w", l.RoleKind, err)
	}
	return raw, nil
}

// WithoutGroups returns a user without groups: to find what is bound to the user by name.
func WithoutGroups(name string) user.Info { return &user.DefaultInfo{Name: name} }

// OnPlatform returns the scope of bindings on the platform.
func OnPlatform() authz.BindingScope { return authz.BindingScope{} }
