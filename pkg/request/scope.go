package request

import (
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// Scope is the scope of bindings that can allow a request.
type Scope uint8

// The scopes, from the widest to the narrowest.
const (
	Global Scope = iota
	Cluster
	Workspace
	Namespace
)

// Label returns a scope as the label iamv1beta1.LabelScope and the names of synthetic groups have it.
func (s Scope) Label() string {
	switch s {
	case Global:
		return iamv1beta1.ScopeGlobal
	case Cluster:
		return iamv1beta1.ScopeCluster
	case Workspace:
		return iamv1beta1.ScopeWorkspace
	}
	return iamv1beta1.ScopeNamespace
}

// RoleKind returns the kind of the roles of a scope; that of their bindings ends in Binding.
func (s Scope) RoleKind() string {
	switch s {
	case Global:
		return iamv1beta1.KindGlobalRole
	case Cluster:
		return iamv1beta1.KindClusterRole
	case Workspace:
		return iamv1beta1.KindWorkspaceRole
	}
	return iamv1beta1.KindRole
}
