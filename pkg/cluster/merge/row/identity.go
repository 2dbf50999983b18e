// Package row reads and marks the items of one cluster in an answer over several: objects, or rows of a Table. What a cluster sends is not
// trusted: an item that readers could take for several, or for one of another cluster, is refused.
package row

import (
	"errors"
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// AnnotationCluster says of which cluster an object of an answer is. What an object has stored there is not shown.
const AnnotationCluster = "kapis.dev/cluster"

// maxName bounds the names of columns.
const maxName = 512

// ErrFaulty says that a cluster sent what no cluster should.
var ErrFaulty = errors.New("the cluster sent an item that is malformed")

// Identity is which object of its cluster an item is.
type Identity struct{ UID, Namespace, Name string }

// identify reads which object an item is. An item that readers may take for several is refused: members whose names differ in case only, or
// in nothing.
func identify(item string) (id Identity, err error) {
	metadata, err := Only(item, "metadata")
	if err != nil {
		return id, err
	}
	if annotations, err := Only(metadata, "annotations"); err != nil {
		return id, err
	} else if _, err := Only(annotations, AnnotationCluster); err != nil {
		return id, err
	}
	for name, to := range map[string]*string{"uid": &id.UID, "namespace": &id.Namespace, "name": &id.Name} {
		value, err := Only(metadata, name)
		if err != nil {
			return id, err
		}
		*to = rawjson.Text(value)
	}
	return id, nil
}

// Only returns a member of an object, "" for none. The error is for one that is there more than once.
func Only(object, name string) (value string, err error) {
	found := false
	for m := rawjson.Object(object); m.Next(); {
		if !strings.EqualFold(m.Key, name) {
			continue
		}
		if found || m.Key != name {
			return "", ErrFaulty
		}
		found, value = true, m.Value
	}
	return value, nil
}

// ofCluster returns an item with the annotation of its cluster.
func ofCluster(item, cluster string) (string, error) {
	stored := rawjson.Cut{"metadata": {"annotations": {AnnotationCluster: nil}}}
	cut, err := rawjson.AppendWithout(nil, item, "", stored)
	if err != nil {
		return "", ErrFaulty
	}
	set := string(rawjson.AppendString(append(rawjson.AppendString(nil, AnnotationCluster), ':'), cluster))
	text := string(cut)
	at, end, ok := rawjson.Span(text, "metadata", "annotations")
	if !ok {
		set = `"annotations":{` + set + "}"
		at, end, ok = rawjson.Span(text, "metadata")
	}
	if !ok || text[at] != '{' {
		return "", ErrFaulty
	}
	return text[:at+1] + before(text[at:end], set) + text[at+1:], nil
}

// before returns the text of a member before the others of an object.
func before(object, member string) string {
	if m := rawjson.Object(object); m.Next() {
		return member + ","
	}
	return member
}
