// Package globalrole keeps GlobalRoles: their rules as their templates say, and one native
// ClusterRole and ClusterRoleBinding for each that is bound.
package globalrole

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
const Name = "globalrole"

const (
	nativePrefix      = mirror.NamePrefix + "global:"
	conditionalPrefix = mirror.NamePrefix + "conditional:"
)

// Setup adds the controller to mgr.
func Setup(ctx context.Context, mgr manager.Manager, writer *mirror.Writer, lag *mirror.Lag) error {
	return mirror.Setup(ctx, mgr, Name, Kind(), writer, lag)
}

// Kind is what GlobalRoles have of their own; the rest is the same for all four kinds of roles.
func Kind() mirror.Kind {
	return mirror.Kind{
		Name: iamv1beta1.KindGlobalRole, Scope: iamv1beta1.ScopeGlobal,
		New:            func() client.Object { return &iamv1beta1.GlobalRole{} },
		NewList:        func() client.ObjectList { return &iamv1beta1.GlobalRoleList{} },
		NewBinding:     func() client.Object { return &iamv1beta1.GlobalRoleBinding{} },
		NewBindingList: func() client.ObjectList { return &iamv1beta1.GlobalRoleBindingList{} },
		Fields:         fields,
		Bound:          bound,
		Place:          place,
		Native:         []client.Object{&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}},
		RoleFinalizer:  iamv1beta1.FinalizerGlobalRole, BindingFinalizer: iamv1beta1.FinalizerGlobalRoleBinding,
	}
}

func fields(o client.Object) aggregation.Role {
	role := o.(*iamv1beta1.GlobalRole)
	return aggregation.Role{Meta: role, Templates: role.AggregationRoleTemplates, Rules: &role.Rules}
}

func bound(o client.Object) (rbacv1.RoleRef, []rbacv1.Subject) {
	binding := o.(*iamv1beta1.GlobalRoleBinding)
	return binding.RoleRef, binding.Subjects
}

func place(_ context.Context, _ client.Reader, role client.Object) (mirror.Place, error) {
	name := role.GetName()
	return mirror.Place{
		Name: nativePrefix + name, Group: iamv1beta1.SyntheticGroup(iamv1beta1.ScopeGlobal, "", name),
		ConditionalName: conditionalPrefix + name, ConditionalGroup: iamv1beta1.ConditionalGroup(iamv1beta1.ScopeGlobal, "", name),
		Everywhere: true,
	}, nil
}
