package mirror

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// narrowed returns what to do with a binding whose native role could not be written; bindings are all wanted ones. Such a role may
// grant too much: no subject is added, and subjects that lost their right are removed.
func (w *Writer) narrowed(bindings []client.Object) func(ctx context.Context, want, have client.Object) (int, error) {
	type place struct{ role, in identity }
	of := func(b client.Object) place {
		return place{roleOf(b), identity{kind: kindOf(b), namespace: b.GetNamespace()}}
	}
	// A subject may also have moved to another one of the role's bindings.
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

// subjectsOf returns a pointer to the subjects of a native binding.
func subjectsOf(binding client.Object) *[]rbacv1.Subject {
	switch b := binding.(type) {
	case *rbacv1.ClusterRoleBinding:
		return &b.Subjects
	case *rbacv1.RoleBinding:
		return &b.Subjects
	}
	return new([]rbacv1.Subject)
}
