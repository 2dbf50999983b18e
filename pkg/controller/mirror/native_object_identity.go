package mirror

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
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
