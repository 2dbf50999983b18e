// Package row reads and marks the items of one cluster in an answer over several: objects, or rows of a Table. What a cluster sends is not
// trusted: an item that readers could take for several, or for one of another cluster, is refused.
package row

import (
	"errors"
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// maxName bounds the names of columns.
const maxName = 512

// ErrFaulty says that a cluster sent what no cluster should.
var ErrFaulty = errors.New("the cluster sent an item that is malformed")

// Identity is which object of its cluster an item is.
type Identity struct {
	UID, Namespace, Name string
	// marked says that the object has AnnotationCluster stored.
	marked bool
}

// identify reads which object an item is. An item that readers may take for several is refused: members whose names differ in case only, or
// in nothing.
func identify(item string) (id Identity, err error) {
	m := rawjson.Object(item)
	return identifyBy(&m)
}

// identifyBy is identify by a walk over the item, which ends with it.
func identifyBy(m *rawjson.Members) (id Identity, err error) {
	metadata, err := only(m, "metadata")
	if err != nil {
		return id, err
	}
	var found [4]string // in the order of names
	names := [...]string{"annotations", "uid", "namespace", "name"}
	for m := rawjson.Object(metadata); m.Next(); {
		for i, name := range names {
			if !strings.EqualFold(m.Key, name) {
				continue
			}
			if found[i] != "" || m.Key != name {
				return id, ErrFaulty
			}
			found[i] = m.Value
		}
	}
	stored, err := Only(found[0], AnnotationCluster)
	if err != nil {
		return id, err
	}
	return Identity{UID: rawjson.Text(found[1]), Namespace: rawjson.Text(found[2]), Name: rawjson.Text(found[3]), marked: stored != ""}, nil
}

// Only returns a member of an object, "" for none. The error is for one that is there more than once.
func Only(object, name string) (value string, err error) {
	m := rawjson.Object(object)
	return only(&m, name)
}

// only is Only by a walk over the object.
func only(m *rawjson.Members, name string) (value string, err error) {
	found := false
	for m.Next() {
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

// KindOf returns the kind of an object as the members that say it; "" for what is none.
func KindOf(object string) string {
	kind, version := rawjson.GetText(object, "kind"), rawjson.GetText(object, "apiVersion")
	if kind == "" || version == "" || max(len(kind), len(version)) > maxName {
		return ""
	}
	b := rawjson.AppendString([]byte(`"kind":`), kind)
	return string(append(rawjson.AppendString(append(b, `,"apiVersion":`...), version), ','))
}
