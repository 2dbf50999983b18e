package mirror

import (
	"fmt"
	"maps"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// native has the native objects that mirror one iam role.
type native struct {
	roles, bindings []client.Object
}

// identities returns the identities of all of them.
func (n native) identities() map[identity]bool {
	out := make(map[identity]bool, len(n.roles)+len(n.bindings))
	for _, o := range n.roles {
		out[identify(o)] = true
	}
	for _, o := range n.bindings {
		out[identify(o)] = true
	}
	return out
}

// nativeKinds returns an object of each kind that the mirror writes.
func nativeKinds() []client.Object {
	return []client.Object{&rbacv1.ClusterRoleBinding{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.Role{}}
}

// nativeLists returns a list of each of nativeKinds: bindings first, since their deletion takes the rights away.
func nativeLists() []client.ObjectList {
	return []client.ObjectList{&rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleList{}, &rbacv1.RoleList{}}
}

// items returns the objects of one of nativeLists.
func items(list client.ObjectList) []client.Object {
	var out []client.Object
	switch l := list.(type) {
	case *rbacv1.ClusterRoleBindingList:
		for i := range l.Items {
			out = append(out, &l.Items[i])
		}
	case *rbacv1.RoleBindingList:
		for i := range l.Items {
			out = append(out, &l.Items[i])
		}
	case *rbacv1.ClusterRoleList:
		for i := range l.Items {
			out = append(out, &l.Items[i])
		}
	case *rbacv1.RoleList:
		for i := range l.Items {
			out = append(out, &l.Items[i])
		}
	}
	return out
}

// empty returns an empty object of o's kind.
func empty(o client.Object) client.Object {
	switch o.(type) {
	case *rbacv1.ClusterRoleBinding:
		return &rbacv1.ClusterRoleBinding{}
	case *rbacv1.RoleBinding:
		return &rbacv1.RoleBinding{}
	case *rbacv1.ClusterRole:
		return &rbacv1.ClusterRole{}
	default:
		return &rbacv1.Role{}
	}
}

// describe returns a unique name of an object for messages: its kind, namespace and name.
func describe(o client.Object) string {
	kind := kindOf(o)
	if o.GetNamespace() == "" {
		return fmt.Sprintf("%s %q", kind, o.GetName())
	}
	return fmt.Sprintf("%s %q in namespace %q", kind, o.GetName(), o.GetNamespace())
}

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

// identity identifies a native object.
type identity struct{ kind, namespace, name string }

func identify(o client.Object) identity { return identity{kindOf(o), o.GetNamespace(), o.GetName()} }

func kindOf(o client.Object) string {
	switch o.(type) {
	case *rbacv1.ClusterRoleBinding:
		return "ClusterRoleBinding"
	case *rbacv1.RoleBinding:
		return "RoleBinding"
	case *rbacv1.ClusterRole:
		return "ClusterRole"
	default:
		return "Role"
	}
}

// roleOf returns the identity of the native role of a binding.
func roleOf(binding client.Object) identity {
	switch b := binding.(type) {
	case *rbacv1.ClusterRoleBinding:
		return identity{b.RoleRef.Kind, "", b.RoleRef.Name}
	case *rbacv1.RoleBinding:
		if b.RoleRef.Kind == "Role" {
			return identity{b.RoleRef.Kind, b.Namespace, b.RoleRef.Name}
		}
		return identity{b.RoleRef.Kind, "", b.RoleRef.Name}
	}
	return identity{}
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
