package index

import (
	"maps"

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
	// CutKeys is 1 more than the position of the field that has what CutClusterWide has cut out of the object, with its keys and
	// without values: `"data":{"a":"","b":""}`. It is empty for more than maxCutKeys bytes of it, and in the cache of a namespace.
	CutKeys int
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
	s.CutKeys = 0
	return s
}

// maxCutKeys bounds what the keys of an object take: most have a few.
const maxCutKeys = 4 << 10

// cutKeys returns the members of an object that cut names, with the keys of each and without values.
func cutKeys(object string, cut rawjson.Cut) string {
	var out []byte
	for m := rawjson.Object(object); m.Next(); {
		if _, named := cut[m.Key]; !named || len(m.Value) <= len("{}") {
			continue
		}
		if len(out) > 0 {
			out = append(out, ',')
		}
		out = append(rawjson.AppendString(out, m.Key), ":{"...)
		first := true
		for k := rawjson.Object(m.Value); k.Next(); first = false {
			if !first {
				out = append(out, ',')
			}
			if out = append(rawjson.AppendString(out, k.Key), `:""`...); len(out) > maxCutKeys {
				return ""
			}
		}
		out = append(out, '}')
	}
	return string(out)
}
