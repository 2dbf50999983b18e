package authz

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"kapis.dev/ks-apiserver/pkg/request"
)

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
