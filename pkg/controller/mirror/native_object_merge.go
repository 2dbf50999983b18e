package mirror

import (
	"maps"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sameReference reports whether two bindings refer to one role; it is true for two roles.
func sameReference(a, b client.Object) bool {
	switch a := a.(type) {
	case *rbacv1.ClusterRoleBinding:
		return a.RoleRef == b.(*rbacv1.ClusterRoleBinding).RoleRef
	case *rbacv1.RoleBinding:
		return a.RoleRef == b.(*rbacv1.RoleBinding).RoleRef
	}
	return true
}

// merge writes into have the fields that the mirror decides, as want has them. Labels and annotations that others added stay.
func merge(have, want client.Object) {
	have.SetLabels(merged(have.GetLabels(), want.GetLabels()))
	have.SetAnnotations(merged(have.GetAnnotations(), want.GetAnnotations()))
	have.SetOwnerReferences(want.GetOwnerReferences())
	switch have := have.(type) {
	case *rbacv1.ClusterRole:
		have.Rules, have.AggregationRule = want.(*rbacv1.ClusterRole).Rules, nil
	case *rbacv1.Role:
		have.Rules = want.(*rbacv1.Role).Rules
	case *rbacv1.ClusterRoleBinding:
		have.Subjects = want.(*rbacv1.ClusterRoleBinding).Subjects
	case *rbacv1.RoleBinding:
		have.Subjects = want.(*rbacv1.RoleBinding).Subjects
	}
}

func merged(have, want map[string]string) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, want)
	return out
}

// same reports whether merge would change nothing of have.
func same(have, want client.Object) bool {
	if !contains(have.GetLabels(), want.GetLabels()) || !contains(have.GetAnnotations(), want.GetAnnotations()) ||
		!equality.Semantic.DeepEqual(have.GetOwnerReferences(), want.GetOwnerReferences()) {
		return false
	}
	switch have := have.(type) {
	case *rbacv1.ClusterRole:
		return have.AggregationRule == nil && equality.Semantic.DeepEqual(have.Rules, want.(*rbacv1.ClusterRole).Rules)
	case *rbacv1.Role:
		return equality.Semantic.DeepEqual(have.Rules, want.(*rbacv1.Role).Rules)
	case *rbacv1.ClusterRoleBinding:
		return equality.Semantic.DeepEqual(have.Subjects, want.(*rbacv1.ClusterRoleBinding).Subjects)
	case *rbacv1.RoleBinding:
		return equality.Semantic.DeepEqual(have.Subjects, want.(*rbacv1.RoleBinding).Subjects)
	}
	return false
}

func contains(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}
