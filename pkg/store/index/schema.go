package index

import (
	"maps"
	"strconv"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// Schema says what the store does with one kind beyond metadata. The zero Schema is right for most kinds.
type Schema struct {
	// Fields is how many values Extract gives, Indexed the positions of those that are looked up by
	// equality often, such as the node of a pod.
	Fields  int
	Indexed []int
	// Members are the positions of fields that have several values, one a line, each of which is looked up
	// often within its namespace, such as the volume claims of a pod.
	Members []int
	// Ordered are the positions of fields that are times (RFC 3339) and that objects are sorted by
	// often: each gets an order of its own.
	Ordered []int
	// Extract fills values, which has Fields elements, from an object's JSON. It is called once for every version of an
	// object. A value should be a substring of json or a constant, so that it costs no memory of its own.
	Extract func(json string, values []string)
	// Cut names what is neither cached nor answered, besides hidden fields.
	Cut rawjson.Cut
	// CutClusterWide names what is not cached for the whole cluster, but for a single namespace: see Store.SnapshotIn.
	CutClusterWide rawjson.Cut
	// KeyCount is 1 more than the position of the field that has how many members the objects have, together, that CutClusterWide has
	// cut out. It is empty in the cache of a namespace.
	KeyCount int
	// Searched are the positions of fields that Snapshot.Containing searches, besides name and alias.
	Searched []int
}

// Within returns the schema for the objects of one namespace, or of the cluster where it is empty.
func (s Schema) Within(namespace string) Schema {
	if namespace == "" && len(s.CutClusterWide) > 0 {
		both := maps.Clone(s.CutClusterWide)
		maps.Copy(both, s.Cut)
		s.Cut = both
		return s
	}
	s.KeyCount = 0
	return s
}

// keyCount returns how many members the objects have, together, that cut names in an object.
func keyCount(object string, cut rawjson.Cut) string {
	n := 0
	for m := rawjson.Object(object); m.Next(); {
		if _, named := cut[m.Key]; named {
			for k := rawjson.Object(m.Value); k.Next(); {
				n++
			}
		}
	}
	return strconv.Itoa(n)
}
