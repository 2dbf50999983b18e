package index

import (
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
)

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
