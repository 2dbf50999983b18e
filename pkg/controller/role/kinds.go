// Package role keeps Roles: (of iam.kubesphere.io) their rules as their templates say, and one
// native Role and RoleBinding in its namespace for each that is bound.
package role

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/aggregation"
	"kapis.dev/ks-apiserver/pkg/controller/mirror"
)

// Name is the controller's name.
const Name = "role"

const (
	nativePrefix      = mirror.NamePrefix
	conditionalPrefix = mirror.NamePrefix + "conditional:"
)

// Setup adds the controller to mgr.
func Setup(ctx context.Context, mgr manager.Manager, writer *mirror.Writer, lag *mirror.Lag) error {
	return mirror.Setup(ctx, mgr, Name, Kind(), writer, lag)
}

// Kind is what Roles have of their own; the rest is the same for all four kinds of roles.
func Kind() mirror.Kind {
	return mirror.Kind{
		Name: iamv1beta1.KindRole, Scope: iamv1beta1.ScopeNamespace,
		New:            func() client.Object { return &iamv1beta1.Role{} },
		NewList:        func() client.ObjectList { return &iamv1beta1.RoleList{} },
		NewBinding:     func() client.Object { return &iamv1beta1.RoleBinding{} },
		NewBindingList: func() client.ObjectList { return &iamv1beta1.RoleBindingList{} },
		Fields:         fields,
		Bound:          bound,
		Place:          place,
		Native:         []client.Object{&rbacv1.Role{}, &rbacv1.RoleBinding{}},
	}
}

func fields(o client.Object) aggregation.Role {
	role := o.(*iamv1beta1.Role)
	return aggregation.Role{Meta: role, Templates: role.AggregationRoleTemplates, Rules: &role.Rules}
}

func bound(o client.Object) (rbacv1.RoleRef, []rbacv1.Subject) {
	binding := o.(*iamv1beta1.RoleBinding)
	return binding.RoleRef, binding.Subjects
}

func place(_ context.Context, _ client.Reader, role client.Object) (mirror.Place, error) {
	name := role.GetName()
	return mirror.Place{
		Name: nativePrefix + name, Group: iamv1beta1.SyntheticGroup(iamv1beta1.ScopeNamespace, "", name),
		ConditionalName: conditionalPrefix + name, ConditionalGroup: iamv1beta1.ConditionalGroup(iamv1beta1.ScopeNamespace, role.GetNamespace(),
			name),
		Namespaces: []string{role.GetNamespace()}, Own: true,
	}, nil
}
