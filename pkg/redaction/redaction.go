package redaction

import (
	"kapis.dev/ks-apiserver/pkg/rawjson"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
