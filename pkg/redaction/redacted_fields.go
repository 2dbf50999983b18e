// Package redaction leaves out of objects the fields that no answer shows, and has types that say whether that was done.
//
// An object is a Raw as kube-apiserver sends it, and a Shown once its hidden fields are removed. No encoder accepts a Raw: it has to
// become a Shown by Raw.Shown, which asks for the kind, and caches turn everything that they store into a Shown (Intake). So an answer
// that forgets redaction does not compile. Raw.Unredacted is for this server's own use of an object; a test has the list of its callers.
package redaction

import (
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"

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

// Redaction removes the hidden fields of a kind from its objects.
type Redaction struct {
	// cut names the hidden fields and lastApplied.
	cut rawjson.Cut
	// owned are the paths of the hidden fields in an entry of managedFields.
	owned [][]string
}

// Of returns the redaction of a kind, or nil if it has no hidden fields.
func Of(gr schema.GroupResource) *Redaction {
	paths := Hidden(gr)
	if paths == nil {
		return nil
	}
	x := &Redaction{cut: rawjson.Cuts(append(paths, pathOfLastApplied())...)}
	for _, path := range paths {
		owned := []string{"fieldsV1"}
		for _, step := range path {
			owned = append(owned, "f:"+step)
		}
		x.owned = append(x.owned, owned)
	}
	return x
}

// Append appends an object without its hidden fields, which are removed from its last-applied configuration too: kubectl compares that
// with the object, and both then lack them. A configuration that can't be read is removed as a whole. managedFields name the elements of
// lists by their values, so of a hidden field they retain only the name. A part of an object, such as its metadata, is treated as an
// object. It fails if the text is no valid JSON object.
func (x *Redaction) Append(dst []byte, object string) ([]byte, error) {
	object = x.withoutOwned(object)
	applied := rawjson.GetText(object, pathOfLastApplied()...)
	if applied == "" {
		return rawjson.AppendWithout(dst, object, "", x.cut)
	}
	clean, err := rawjson.AppendWithout(nil, x.withoutOwned(applied), "", x.cut)
	if err != nil {
		return rawjson.AppendWithout(dst, object, "", x.cut)
	}
	rest, err := rawjson.AppendWithout(nil, object, "", x.cut)
	if err != nil {
		return dst, err
	}
	return appendWith(dst, string(rest), quoted(string(clean)), pathOfLastApplied()...), nil
}

// withoutOwned returns an object whose managedFields say that a hidden field has an owner, and nothing of what is in it.
func (x *Redaction) withoutOwned(object string) string {
	start, end, ok := rawjson.Span(object, pathOfManagedFields()...)
	if !ok {
		return object
	}
	entries, changed := []byte{'['}, false
	for e := rawjson.Array(object[start:end]); e.Next(); {
		entry := e.Value
		for _, path := range x.owned {
			if from, to, ok := rawjson.Span(entry, path...); ok && entry[from:to] != "{}" {
				entry, changed = entry[:from]+"{}"+entry[to:], true
			}
		}
		if len(entries) > 1 {
			entries = append(entries, ',')
		}
		entries = append(entries, entry...)
	}
	if !changed {
		return object
	}
	return object[:start] + string(append(entries, ']')) + object[end:]
}

// appendWith appends the object s with one more member at path.
func appendWith(dst []byte, s, value string, path ...string) []byte {
	if len(path) == 0 {
		return append(dst, value...)
	}
	dst = append(dst, '{')
	found, first := false, true
	member := func(key string) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(dst, quoted(key)...), ':')
	}
	for m := rawjson.Object(s); m.Next(); {
		member(m.Key)
		if m.Key == path[0] {
			dst, found = appendWith(dst, m.Value, value, path[1:]...), true
		} else {
			dst = append(dst, m.Value...)
		}
	}
	if !found {
		member(path[0])
		dst = appendWith(dst, "{}", value, path[1:]...)
	}
	return append(dst, '}')
}
