package resource

import (
	"encoding/json"
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Hidden returns the paths of the fields of a kind that no answer shows, however wide the right to read the kind is: passwords, the hashes that
// guesses can be tried on, and what opens another cluster. It is nil for most kinds. There is no right to read them: who needs one asks a route of
// its own, which has a right of its own.
func Hidden(gr schema.GroupResource) [][]string {
	switch gr {
	case in(iamGroup, "users"):
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

// Addresses returns the paths of the fields that say where hidden fields of a kind are sent to. Whoever changes one, and could have what is hidden
// kept, would be sent it.
func Addresses(gr schema.GroupResource) [][]string {
	switch gr {
	case in("cluster.kubesphere.io", "clusters"):
		return [][]string{{"spec", "connection", "kubernetesAPIEndpoint"}, {"spec", "connection", "kubesphereAPIEndpoint"}}
	case in("kubesphere.io", "repositories"), in("application.kubesphere.io", "repos"):
		return [][]string{{"spec", "url"}}
	}
	return nil
}

// hiding is a kind of which all that is particular is that it has hidden fields.
func hiding(group, plural string) *kind {
	return &kind{cut: rawjson.Cuts(Hidden(in(group, plural))...)}
}

// lastApplied is where kubectl apply keeps what it was given, hidden fields included.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Hides tells whether what a JSON pointer (RFC 6901) points at is not shown of a kind, holds something that is not, or is a part of that: a JSON patch
// that copied it, or tested it, would tell of it. What kubectl apply was given may repeat what is hidden.
func Hides(gr schema.GroupResource, pointer string) bool {
	paths := Hidden(gr)
	if paths == nil {
		return false
	}
	for _, path := range append(paths, []string{"metadata", "annotations", lastApplied}) {
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

// Redaction takes the hidden fields of a kind out of its objects. The zero value takes out nothing.
type Redaction struct {
	cut rawjson.Cut
	// unapplied takes lastApplied out beside them.
	unapplied rawjson.Cut
}

// RedactionOf returns the redaction of a kind, nil where nothing of it is hidden.
func RedactionOf(gr schema.GroupResource) *Redaction {
	paths := Hidden(gr)
	if paths == nil {
		return nil
	}
	return &Redaction{rawjson.Cuts(paths...), rawjson.Cuts(append(paths, []string{"metadata", "annotations", lastApplied})...)}
}

// Append appends an object without its hidden fields, which go from its last-applied configuration too: kubectl compares that with the
// object, and both then lack them. A configuration that can't be read goes whole. What is a part of an object only, such as its metadata,
// is taken as one. It fails where the text is no valid JSON object.
func (x *Redaction) Append(dst []byte, object string) ([]byte, error) {
	applied := rawjson.GetText(object, "metadata", "annotations", lastApplied)
	if applied == "" {
		return rawjson.AppendWithout(dst, object, "", x.cut)
	}
	clean, err := rawjson.AppendWithout(nil, applied, "", x.unapplied)
	if err != nil {
		return rawjson.AppendWithout(dst, object, "", x.unapplied)
	}
	quoted, err := json.Marshal(string(clean))
	if err != nil {
		return dst, err
	}
	rest, err := rawjson.AppendWithout(nil, object, "", x.unapplied)
	if err != nil {
		return dst, err
	}
	return appendWith(dst, string(rest), string(quoted), "metadata", "annotations", lastApplied), nil
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
		name, _ := json.Marshal(key) // a string always has a JSON text
		dst = append(append(dst, name...), ':')
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
