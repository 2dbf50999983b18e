package mirror

import (
	"fmt"
	"maps"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// native is what mirrors one iam role.
type native struct {
	roles, bindings []client.Object
}

// names are the descriptions of all of it.
func (n native) names() map[string]bool {
	out := make(map[string]bool, len(n.roles)+len(n.bindings))
	for _, o := range n.roles {
		out[describe(o)] = true
	}
	for _, o := range n.bindings {
		out[describe(o)] = true
	}
	return out
}

// nativeKinds are the kinds that the mirror writes.
func nativeKinds() []client.Object {
	return []client.Object{&rbacv1.ClusterRoleBinding{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.Role{}}
}

// nativeLists are lists of nativeKinds; bindings first, since what they grant goes with them.
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

// describe names an object for people: its kind, namespace and name. No two objects share it.
func describe(o client.Object) string {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.")
	if o.GetNamespace() == "" {
		return fmt.Sprintf("%s %q", kind, o.GetName())
	}
	return fmt.Sprintf("%s %q in namespace %q", kind, o.GetName(), o.GetNamespace())
}

// sameReference says whether two bindings are of one role; roles always are.
func sameReference(a, b client.Object) bool {
	switch a := a.(type) {
	case *rbacv1.ClusterRoleBinding:
		return a.RoleRef == b.(*rbacv1.ClusterRoleBinding).RoleRef
	case *rbacv1.RoleBinding:
		return a.RoleRef == b.(*rbacv1.RoleBinding).RoleRef
	}
	return true
}

// merge puts into have what the mirror decides of it, as want has it. Labels and annotations that
// somebody else put there stay.
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

// objects returns what mirrors a grant: nothing where it grants nothing, or to nobody.
func objects(g *grant, source string, owner metav1.OwnerReference) (out native) {
	rules := nativeRules(g.Rules, !g.Place.Everywhere)
	if len(rules) == 0 || !g.Bound {
		return native{}
	}
	name, group := g.Place.Name, g.Place.Group
	subjects := nativeSubjects(g.Subjects)
	if g.Conditional {
		name, group, subjects = g.Place.ConditionalName, conditionalGroupPrefix+g.Role, nil
	}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels:          map[string]string{LabelManagedBy: ManagedBy},
			Annotations:     map[string]string{AnnotationSource: source},
			OwnerReferences: []metav1.OwnerReference{owner},
		}
	}
	if g.Place.Own {
		ref.Kind = "Role"
		for _, namespace := range g.Place.Namespaces {
			out.roles = append(out.roles, &rbacv1.Role{ObjectMeta: meta(namespace, name), Rules: rules})
		}
	} else {
		out.roles = append(out.roles, &rbacv1.ClusterRole{ObjectMeta: meta("", name), Rules: rules})
	}
	for i, part := range parts(subjects, group) {
		name := partName(name, i)
		if g.Place.Everywhere {
			out.bindings = append(out.bindings, &rbacv1.ClusterRoleBinding{ObjectMeta: meta("", name), RoleRef: ref, Subjects: part})
			continue
		}
		for _, namespace := range g.Place.Namespaces {
			out.bindings = append(out.bindings, &rbacv1.RoleBinding{ObjectMeta: meta(namespace, name), RoleRef: ref, Subjects: part})
		}
	}
	return out
}
