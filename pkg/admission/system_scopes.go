package admission

import (
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"

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
