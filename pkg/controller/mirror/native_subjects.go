package mirror

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// maxSubjects is about how many subjects one native binding has, so that an object stays small to write and watch even
// if all users have the role; kube-apiserver's limit is near 15 000.
const maxSubjects = 1000

// nativeSubjects returns the subjects that kube-apiserver may know, sorted and unique. A subject that is left out has
// its rights through ks-apiserver only, by the synthetic group.
func nativeSubjects(subjects []rbacv1.Subject) []rbacv1.Subject {
	out := make([]rbacv1.Subject, 0, len(subjects))
	for i := range subjects {
		if s, ok := nativeSubject(&subjects[i]); ok {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b rbacv1.Subject) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(out)
}

func nativeSubject(s *rbacv1.Subject) (rbacv1.Subject, bool) {
	switch s.Kind {
	case rbacv1.UserKind, rbacv1.GroupKind:
		switch s.APIGroup {
		case "", rbacv1.GroupName, iamv1beta1.GroupName:
		default:
			return rbacv1.Subject{}, false
		}
		if s.Name == "" || reserved(s.Kind, s.Name) {
			return rbacv1.Subject{}, false
		}
		return rbacv1.Subject{Kind: s.Kind, APIGroup: rbacv1.GroupName, Name: s.Name}, true
	case rbacv1.ServiceAccountKind:
		// A service account of the group kubesphere.io is not the native one of its name.
		if s.APIGroup != "" && s.APIGroup != rbacv1.GroupName || s.Name == "" || s.Namespace == "" {
			return rbacv1.Subject{}, false
		}
		return rbacv1.Subject{Kind: s.Kind, Namespace: s.Namespace, Name: s.Name}, true
	}
	return rbacv1.Subject{}, false
}

// reserved reports whether iam bindings must not give rights at kube-apiserver to a user or group of that name:
// synthetic groups, and Kubernetes' own names except those that any caller can have.
func reserved(kind, name string) bool {
	if strings.HasPrefix(name, iamv1beta1.SyntheticGroupPrefix) {
		return true
	}
	if !strings.HasPrefix(name, "system:") {
		return false
	}
	if kind == rbacv1.UserKind {
		return name != "system:anonymous" && !strings.HasPrefix(name, "system:serviceaccount:")
	}
	return name != "system:authenticated" && name != "system:unauthenticated" &&
		name != "system:serviceaccounts" && !strings.HasPrefix(name, "system:serviceaccounts:")
}

// distribute distributes subjects over as many bindings as their number needs, with the synthetic group in the first. The
// part of a subject depends on the subject and the number of parts, so that one subject more or less changes one part.
func distribute(subjects []rbacv1.Subject, group string) [][]rbacv1.Subject {
	n := 1
	for len(subjects) > n*maxSubjects {
		n *= 2
	}
	out := make([][]rbacv1.Subject, n)
	out[0] = append(out[0], rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: group})
	for _, s := range subjects {
		i := 0
		if n > 1 {
			h := fnv.New32a()
			_, _ = h.Write([]byte(s.Kind + "/" + s.Namespace + "/" + s.Name)) // a hash returns no error
			i = int(h.Sum32() % uint32(n))
		}
		out[i] = append(out[i], s)
	}
	return out
}

// partName returns the name of the i-th binding of the native role name.
func partName(name string, i int) string {
	if i == 0 {
		return name
	}
	return name + ":part:" + strconv.Itoa(i)
}
