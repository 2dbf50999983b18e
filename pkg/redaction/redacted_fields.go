// Package redaction leaves out of objects the fields that no answer shows, and has types that say whether that was done.
//
// An object is a Raw as kube-apiserver sends it, and a Shown once its hidden fields are removed. No encoder accepts a Raw: it has to
// become a Shown by Raw.Shown, which asks for the kind, and caches turn everything that they store into a Shown (Intake). So an answer
// that forgets redaction does not compile. Raw.Unredacted is for this server's own use of an object; a test has the list of its callers.
package redaction

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Hidden returns the paths of the fields of a kind that no answer shows, however wide the right to read the kind is: passwords, hashes
// that guesses can be tried on, and credentials of other clusters. It is nil for most kinds. There is no right to read them: a caller who
// needs one uses a dedicated route, which has a right of its own.
func Hidden(gr schema.GroupResource) [][]string {
	switch gr {
	case in("iam.kubesphere.io", "users"):
		return [][]string{{"spec", "password"}}
	case in("cluster.kubesphere.io", "clusters"):
		return [][]string{{"spec", "connection", "kubeconfig"}, {"spec", "connection", "token"}}
	case in("session.kapis.dev", "sessions"):
		return [][]string{{"spec", "credential"}, {"refresh", "current"}, {"refresh", "previous"}, {"upstream", "hint"}, {"upstream", "refresh"}}
	case in("session.kapis.dev", "apikeys"):
		return [][]string{{"spec", "hash"}}
	case in("session.kapis.dev", "factors"):
		return [][]string{{"spec", "totp", "secret"}, {"spec", "recovery"}}
	case in("session.kapis.dev", "lockouts"):
		return [][]string{{"spec", "failures"}, {"spec", "known"}}
	case in("kubesphere.io", "repositories"):
		return [][]string{{"spec", "basicAuth", "password"}}
	case in("application.kubesphere.io", "repos"):
		return [][]string{{"spec", "credential"}}
	}
	return nil
}

func in(group, resource string) schema.GroupResource {
	return schema.GroupResource{Group: group, Resource: resource}
}

// lastApplied is the annotation in which kubectl apply stores its input, hidden fields included.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func pathOfLastApplied() []string { return []string{"metadata", "annotations", lastApplied} }

func pathOfManagedFields() []string { return []string{"metadata", "managedFields"} }

// Hides reports whether the value that a JSON pointer (RFC 6901) points at is a hidden field of a kind, contains one, or is a part of
// one: a JSON patch that copied it, or tested it, would reveal it. The last-applied configuration and managedFields may repeat hidden
// fields.
func Hides(gr schema.GroupResource, pointer string) bool {
	paths := Hidden(gr)
	if paths == nil {
		return false
	}
	for _, path := range append(paths, pathOfLastApplied(), pathOfManagedFields()) {
		var b strings.Builder
		for _, step := range path {
			b.WriteByte('/')
			b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(step))
		}
		if at := b.String(); pointer == at || strings.HasPrefix(pointer, at+"/") || strings.HasPrefix(at, pointer+"/") {
			return true
		}
	}
	return false
}
