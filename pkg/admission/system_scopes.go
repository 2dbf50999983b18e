package admission

import (
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"

	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// SystemScopes returns the workspace and the namespaces of the system in which a user is bound. Who is a member there reaches the keys of
// the platform.
func SystemScopes(of Memberships, u user.Info) (out []authz.BindingScope) {
	in, _ := of.Memberships(u)
	if in == nil {
		return nil
	}
	for _, name := range in.Workspaces {
		out = append(out, authz.BindingScope{Scope: request.Workspace, Workspace: name})
	}
	for _, name := range in.Namespaces {
		out = append(out, authz.BindingScope{Scope: request.Namespace, Namespace: name})
	}
	return slices.DeleteFunc(out, func(at authz.BindingScope) bool { return !isSystem(of, at) })
}

// isSystem reports whether a scope is the workspace of the system, or a namespace that is in it or is the system's by its name.
func (q *escalationCheck) isSystem(at authz.BindingScope) bool { return isSystem(q.guard.Holdings, at) }

func isSystem(of Memberships, at authz.BindingScope) bool {
	switch at.Scope {
	case request.Workspace:
		return at.Workspace == tenantv1beta1.SystemWorkspace
	case request.Namespace:
		return tenantv1beta1.IsSystemNamespace(at.Namespace) || of.WorkspaceOf(at.Namespace) == tenantv1beta1.SystemWorkspace
	}
	return false
}
