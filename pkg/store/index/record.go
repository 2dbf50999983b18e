package index

import (
	"hash/crc32"
	"maps"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
)

// AliasAnnotation is the annotation with the display name of an object.
const AliasAnnotation = "kubesphere.io/alias-name"

// Ref is an object's key in every order. It does not change while the object exists.
type Ref struct {
	// Created is the creation time in seconds since 1970, 0 where the object has none.
	Created int64
	// Namespace is empty for a cluster-scoped object.
	Namespace, Name string

	id uint32
}

// Record is one version of an object, as it is cached: its JSON and the values that queries read. It does not change, and
// its texts are substrings of JSON where that is possible.
type Record struct {
	*Ref
	// JSON is the object as it is answered: compact as it came, kind and apiVersion first, without
	// managedFields, the last-applied annotation, hidden fields and what its Schema cuts.
	JSON redaction.Shown
	// UID and ResourceVersion are the object's metadata.
	UID, ResourceVersion string
	// Alias is the value of AliasAnnotation.
	Alias string
	// Labels and Annotations are the object's own.
	Labels, Annotations Pairs
	// Fields are the values that the kind's Schema names, in its order.
	Fields []string

	owners   string
	checksum uint32 // of JSON; 0 where it was not computed
}

// Checksum distinguishes contents of one object that have the same resource version, as after the restore of a backup of etcd. It is no
// defence against two objects that somebody makes on purpose: the UID and the resource version can't be chosen.
func (r *Record) Checksum() uint32 {
	if r.checksum != 0 {
		return r.checksum
	}
	return checksum(r.JSON.String())
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(text string) (sum uint32) {
	var room [1 << 10]byte
	for text != "" {
		n := copy(room[:], text)
		sum, text = crc32.Update(sum, castagnoli, room[:n]), text[n:]
	}
	return sum
}

// Owner is one of an object's owner references.
type Owner struct {
	Kind, Name, UID string
}

// Owners returns the object's owner references.
func (r *Record) Owners() []Owner {
	var out []Owner
	for e := rawjson.Array(r.owners); e.Next(); {
		var o Owner
		for m := rawjson.Object(e.Value); m.Next(); {
			switch m.Key {
			case "kind":
				o.Kind = rawjson.Text(m.Value)
			case "name":
				o.Name = rawjson.Text(m.Value)
			case "uid":
				o.UID = rawjson.Text(m.Value)
			}
		}
		out = append(out, o)
	}
	return out
}

// Pairs are labels or annotations, as their JSON.
type Pairs string

// Get returns the value of a key, and whether it is there.
func (p Pairs) Get(key string) (string, bool) {
	for m := rawjson.Object(string(p)); m.Next(); {
		if m.Key == key {
			return rawjson.Text(m.Value), true
		}
	}
	return "", false
}

// All calls f with every pair until it returns false.
func (p Pairs) All(f func(key, value string) bool) {
	for m := rawjson.Object(string(p)); m.Next(); {
		if !f(m.Key, rawjson.Text(m.Value)) {
			return
		}
	}
}

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

// Incoming is what is read of an object's metadata before it is in a collection.
type Incoming struct {
	Record *Record
	Ref    Ref
}

// readMetadata reads the metadata of an object's JSON.
func readMetadata(object redaction.Shown, s *Schema) (*Incoming, error) {
	json := object.String()
	out := &Incoming{Record: &Record{JSON: object, checksum: checksum(json)}}
	for m := rawjson.Object(json); m.Next(); {
		if m.Key == "metadata" {
			out.metadata(m.Value)
			break
		}
	}
	if out.Ref.Name == "" {
		return nil, errNoName
	}
	out.Ref.Name = strings.Clone(out.Ref.Name) // a Ref outlives the JSON of its first version
	out.Ref.Namespace = internNamespace(out.Ref.Namespace)
	if s.Fields > 0 {
		out.Record.Fields = make([]string, s.Fields)
	}
	if s.Extract != nil {
		s.Extract(json, out.Record.Fields)
	}
	return out, nil
}

func (s *Incoming) metadata(json string) {
	r := s.Record
	for m := rawjson.Object(json); m.Next(); {
		switch m.Key {
		case "name":
			if strings.HasPrefix(m.Value, `"`) { // a name is a string
				s.Ref.Name = rawjson.Text(m.Value)
			}
		case "namespace":
			s.Ref.Namespace = rawjson.Text(m.Value)
		case "uid":
			r.UID = rawjson.Text(m.Value)
		case "resourceVersion":
			r.ResourceVersion = rawjson.Text(m.Value)
		case "creationTimestamp":
			s.Ref.Created = Seconds(rawjson.Text(m.Value))
		case "labels":
			r.Labels = Pairs(m.Value)
		case "annotations":
			r.Annotations = Pairs(m.Value)
			r.Alias, _ = r.Annotations.Get(AliasAnnotation)
		case "ownerReferences":
			r.owners = m.Value
		}
	}
}

// Seconds returns an RFC 3339 time in seconds since 1970, or 0 for any other text.
func Seconds(text string) int64 {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0
	}
	return t.Unix()
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
