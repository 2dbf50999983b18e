// Package role has the differences between the four kinds of roles of iam.kubesphere.io. Their controllers are the same: package mirror
// updates the rules of a role from its templates, and native RBAC from its rules and bindings.
package role

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/aggregation"
	"kapis.dev/ks-apiserver/pkg/controller/mirror"
)

const conditionalPrefix = mirror.NamePrefix + "conditional:"

// Kinds returns the four kinds of roles: of the platform, a workspace, the cluster and a namespace.
func Kinds() []mirror.Kind {
	return []mirror.Kind{
		{
			Name: iamv1beta1.KindGlobalRole, Scope: iamv1beta1.ScopeGlobal,
			New:            func() client.Object { return &iamv1beta1.GlobalRole{} },
			NewList:        func() client.ObjectList { return &iamv1beta1.GlobalRoleList{} },
			NewBinding:     func() client.Object { return &iamv1beta1.GlobalRoleBinding{} },
			NewBindingList: func() client.ObjectList { return &iamv1beta1.GlobalRoleBindingList{} },
			Fields: func(o client.Object) aggregation.Role {
				r := o.(*iamv1beta1.GlobalRole)
				return aggregation.Role{Meta: r, Templates: r.AggregationRoleTemplates, Rules: &r.Rules}
			},
			Bound: func(o client.Object) (rbacv1.RoleRef, []rbacv1.Subject) {
				b := o.(*iamv1beta1.GlobalRoleBinding)
				return b.RoleRef, b.Subjects
			},
			NativeScope:   everywhere(iamv1beta1.ScopeGlobal, mirror.NamePrefix+"global:", conditionalPrefix),
			Native:        []client.Object{&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}},
			RoleFinalizer: iamv1beta1.FinalizerGlobalRole, BindingFinalizer: iamv1beta1.FinalizerGlobalRoleBinding,
		},
		{
			Name: iamv1beta1.KindWorkspaceRole, Scope: iamv1beta1.ScopeWorkspace,
			New:            func() client.Object { return &iamv1beta1.WorkspaceRole{} },
			NewList:        func() client.ObjectList { return &iamv1beta1.WorkspaceRoleList{} },
			NewBinding:     func() client.Object { return &iamv1beta1.WorkspaceRoleBinding{} },
			NewBindingList: func() client.ObjectList { return &iamv1beta1.WorkspaceRoleBindingList{} },
			Fields: func(o client.Object) aggregation.Role {
				r := o.(*iamv1beta1.WorkspaceRole)
				return aggregation.Role{Meta: r, Templates: r.AggregationRoleTemplates, Rules: &r.Rules}
			},
			Bound: func(o client.Object) (rbacv1.RoleRef, []rbacv1.Subject) {
				b := o.(*iamv1beta1.WorkspaceRoleBinding)
				return b.RoleRef, b.Subjects
			},
			NativeScope: workspacePlace,
			Native:      []client.Object{&rbacv1.ClusterRole{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRoleBinding{}},
			Indexes: []mirror.FieldIndex{
				{Object: namespaceKind(), Field: workspaceField, Of: workspaceOf},
				{Object: &iamv1beta1.WorkspaceRole{}, Field: workspaceField, Of: workspaceOf},
			},
			Watches:       []mirror.Watch{{Object: &corev1.Namespace{}, Roles: ofWorkspace}},
			RoleFinalizer: iamv1beta1.FinalizerWorkspaceRole, BindingFinalizer: iamv1beta1.FinalizerWorkspaceRoleBinding,
		},
		{
			Name: iamv1beta1.KindClusterRole, Scope: iamv1beta1.ScopeCluster,
			New:            func() client.Object { return &iamv1beta1.ClusterRole{} },
			NewList:        func() client.ObjectList { return &iamv1beta1.ClusterRoleList{} },
			NewBinding:     func() client.Object { return &iamv1beta1.ClusterRoleBinding{} },
			NewBindingList: func() client.ObjectList { return &iamv1beta1.ClusterRoleBindingList{} },
			Fields: func(o client.Object) aggregation.Role {
				r := o.(*iamv1beta1.ClusterRole)
				return aggregation.Role{Meta: r, Templates: r.AggregationRoleTemplates, Rules: &r.Rules}
			},
			Bound: func(o client.Object) (rbacv1.RoleRef, []rbacv1.Subject) {
				b := o.(*iamv1beta1.ClusterRoleBinding)
				return b.RoleRef, b.Subjects
			},
			NativeScope: everywhere(iamv1beta1.ScopeCluster, mirror.NamePrefix, conditionalPrefix+"cluster:"),
			Native:      []client.Object{&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}},
		},
		{
			Name: iamv1beta1.KindRole, Scope: iamv1beta1.ScopeNamespace,
			New:            func() client.Object { return &iamv1beta1.Role{} },
			NewList:        func() client.ObjectList { return &iamv1beta1.RoleList{} },
			NewBinding:     func() client.Object { return &iamv1beta1.RoleBinding{} },
			NewBindingList: func() client.ObjectList { return &iamv1beta1.RoleBindingList{} },
			Fields: func(o client.Object) aggregation.Role {
				r := o.(*iamv1beta1.Role)
				return aggregation.Role{Meta: r, Templates: r.AggregationRoleTemplates, Rules: &r.Rules}
			},
			Bound: func(o client.Object) (rbacv1.RoleRef, []rbacv1.Subject) {
				b := o.(*iamv1beta1.RoleBinding)
				return b.RoleRef, b.Subjects
			},
			NativeScope: namespacePlace,
			Native:      []client.Object{&rbacv1.Role{}, &rbacv1.RoleBinding{}},
		},
	}
}

// everywhere returns the Place function of roles that hold in the whole cluster.
func everywhere(scope, prefix, conditional string) func(context.Context, client.Reader, client.Object) (mirror.NativeScope, error) {
	return func(_ context.Context, _ client.Reader, role client.Object) (mirror.NativeScope, error) {
		name := role.GetName()
		return mirror.NativeScope{
			Name: prefix + name, Group: iamv1beta1.SyntheticGroup(scope, "", name),
			ConditionalName: conditional + name, ConditionalGroup: iamv1beta1.ConditionalGroup(scope, "", name),
			Everywhere: true,
		}, nil
	}
}

// namespacePlace returns the role's own namespace.
func namespacePlace(_ context.Context, _ client.Reader, role client.Object) (mirror.NativeScope, error) {
	name, namespace := role.GetName(), role.GetNamespace()
	return mirror.NativeScope{
		Name: mirror.NamePrefix + name, Group: iamv1beta1.SyntheticGroup(iamv1beta1.ScopeNamespace, "", name),
		ConditionalName: conditionalPrefix + name, ConditionalGroup: iamv1beta1.ConditionalGroup(iamv1beta1.ScopeNamespace, namespace, name),
		Namespaces: []string{namespace}, Own: true,
	}, nil
}
