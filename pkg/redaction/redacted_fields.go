// Package redaction leaves out of objects what no answer shows, and gives objects types that say whether that was done.
//
// An object is a Raw as kube-apiserver sends it, and a Shown once its hidden fields are gone. A Raw has no text that an encoder takes: the
// way to one is Raw.Shown, which asks for the kind, and caches make a Shown of whatever they take in (Intake). So an answer that forgets
// redaction does not compile. Raw.Unredacted is for what this server itself does with an object; a test has the list of who calls it.
package redaction

import (
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Hidden returns the paths of the fields of a kind that no answer shows, however wide the right to read the kind is: passwords, the hashes
// that guesses can be tried on, and what opens another cluster. It is nil for most kinds. There is no right to read them: who needs one
// asks a route of its own, which has a right of its own.
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

// lastApplied is where kubectl apply keeps what it was given, hidden fields included.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func pathOfLastApplied() []string { return []string{"metadata", "annotations", lastApplied} }

func pathOfManagedFields() []string { return []string{"metadata", "managedFields"} }

// Hides reports whether what a JSON pointer (RFC 6901) points at is not shown of a kind, holds something that is not, or is a part of that:
// a JSON patch that copied it, or tested it, would tell of it. What kubectl apply was given may repeat what is hidden, and so may
// managedFields.
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

// Redaction takes the hidden fields of a kind out of its objects.
type Redaction struct {
	// cut names the hidden fields and lastApplied.
	cut rawjson.Cut
	// owned are the paths of the hidden fields in an entry of managedFields.
	owned [][]string
}

// Of returns the redaction of a kind, nil where nothing of it is hidden.
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

// Append appends an object without its hidden fields, which go from its last-applied configuration too: kubectl compares that with the
// object, and both then lack them. A configuration that can't be read goes whole. managedFields name the elements of lists by their values,
// so of a hidden field they keep its name only. What is a part of an object only, such as its metadata, is taken as one. It fails where the
// text is no valid JSON object.
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

// withoutOwned returns an object whose managedFields say of a hidden field that somebody owns it, and not what is in it.
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
