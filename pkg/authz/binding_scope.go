package authz

import (
	"strconv"

	"kapis.dev/ks-apiserver/pkg/request"
)

// BindingScope is where a right is held or given: on the platform, in the cluster, in a workspace or in a namespace. The zero value is
// the platform.
type BindingScope struct {
	Scope request.Scope
	// Workspace is the name of the workspace where Scope is Workspace, Namespace that of the namespace where it is Namespace.
	Workspace, Namespace string
}

// String returns the scope as people read it.
func (p BindingScope) String() string {
	switch p.Scope {
	case request.Workspace:
		return "in the workspace " + strconv.Quote(p.Workspace)
	case request.Namespace:
		return "in the namespace " + strconv.Quote(p.Namespace)
	case request.Cluster:
		return "in the cluster"
	}
	return "on the platform"
}
