// Package binding changes which role a user has at a scope, as the caller: it plans the writes of bindings, checks all of them, and
// sends them.
package binding

import (
	"encoding/json"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/request"
)

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

// OnPlatform returns the scope of bindings on the platform.
func OnPlatform() authz.BindingScope { return authz.BindingScope{} }
