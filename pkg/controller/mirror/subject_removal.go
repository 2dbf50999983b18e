package mirror

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// narrowed returns what to do with a binding whose native role could not be written; bindings are all that are wanted. Such a role may
// grant more than it is to: nobody else is bound to it, and whoever is, and has no right to it any more, loses it.
func (w *Writer) narrowed(bindings []client.Object) func(ctx context.Context, want, have client.Object) (int, error) {
	type place struct{ role, in identity }
	of := func(b client.Object) place {
		return place{roleOf(b), identity{kind: kindOf(b), namespace: b.GetNamespace()}}
	}
	// Which of a role's bindings somebody is to be in may have changed, too.
	still := map[place]map[rbacv1.Subject]bool{}
	for _, b := range bindings {
		at := of(b)
		if still[at] == nil {
			still[at] = map[rbacv1.Subject]bool{}
		}
		for _, s := range *subjectsOf(b) {
			still[at][s] = true
		}
	}
	return func(ctx context.Context, want, have client.Object) (int, error) {
		switch {
		case have == nil:
			return 0, nil
		case !sameReference(have, want):
			return 1, w.delete(ctx, have)
		}
		var left []rbacv1.Subject
		for _, s := range *subjectsOf(have) {
			if still[of(want)][s] {
				left = append(left, s)
			}
		}
		if len(left) == len(*subjectsOf(have)) {
			return 0, nil
		}
		less := want.DeepCopyObject().(client.Object)
		*subjectsOf(less) = left
		return w.change(ctx, have, less)
	}
}

// subjectsOf points at the subjects of a native binding.
func subjectsOf(binding client.Object) *[]rbacv1.Subject {
	switch b := binding.(type) {
	case *rbacv1.ClusterRoleBinding:
		return &b.Subjects
	case *rbacv1.RoleBinding:
		return &b.Subjects
	}
	return new([]rbacv1.Subject)
}
