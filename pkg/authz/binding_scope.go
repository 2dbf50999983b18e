package authz

import (
	"strconv"

	rbacv1 "k8s.io/api/rbac/v1"

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

// RoleRef names a role of iam.kubesphere.io: the scope determines its kind (GlobalRole, ClusterRole, WorkspaceRole, Role).
type RoleRef struct {
	Scope request.Scope
	// Namespace is that of a Role, empty for the other kinds.
	Namespace, Name string
}

// Grant is a binding of a role to a subject, as far as it matters for a request.
type Grant struct {
	// Scope is where it grants, Binding its name (with its namespace, if it has one, in Role).
	Scope   BindingScope
	Binding string
	Role    RoleRef
	// Subject is the subject that the role is bound to.
	Subject rbacv1.Subject
	// Rule is the first rule of the role that matches; nil where none does.
	Rule *rbacv1.PolicyRule
	// Condition is the role's condition in CEL; empty for none. Held means that the binding grants the request: a rule matches, and the
	// condition holds, if there is one.
	Condition string
	Held      bool
	// Why says in one sentence why it grants, or why it does not.
	Why string
}
