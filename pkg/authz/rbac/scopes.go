package rbac

import (
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// Meets returns the scopes whose bindings can allow r, in the order in which Authorize asks them. A request in a namespace includes the
// workspace of that namespace, with an empty name if it is in none.
func (x *Index) Meets(r *request.Info) []authz.BindingScope {
	return x.above(authz.BindingScope{Scope: r.Scope, Workspace: r.Workspace, Namespace: r.Namespace})
}

// above returns the scopes that a scope inherits from, and itself, in the order in which Authorize asks them.
func (x *Index) above(at authz.BindingScope) []authz.BindingScope {
	out := append(make([]authz.BindingScope, 0, 4), authz.BindingScope{Scope: request.Global})
	switch at.Scope {
	case request.Global:
		return out
	case request.Workspace:
		out = append(out, authz.BindingScope{Scope: request.Workspace, Workspace: at.Workspace})
	case request.Namespace:
		workspace, _ := x.workspaceOf.Get(at.Namespace)
		out = append(out, authz.BindingScope{Scope: request.Workspace, Workspace: workspace},
			authz.BindingScope{Scope: request.Namespace, Namespace: at.Namespace})
	}
	return append(out, authz.BindingScope{Scope: request.Cluster})
}

// at returns the bindings at a scope, or nil if there are none.
func (x *Index) at(p authz.BindingScope) *subjects {
	switch p.Scope {
	case request.Global:
		return &x.global
	case request.Cluster:
		return &x.cluster
	case request.Workspace:
		if p.Workspace != "" {
			s, _ := x.workspaces.Get(p.Workspace)
			return s
		}
	case request.Namespace:
		if p.Namespace != "" {
			s, _ := x.namespaces.Get(p.Namespace)
			return s
		}
	}
	return nil
}
