package index

import (
	"hash/crc32"

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
	r.AnyOwner(func(o Owner) bool {
		out = append(out, o)
		return false
	})
	return out
}

// AnyOwner reports whether f holds for one of the object's owner references. It makes no list of them.
func (r *Record) AnyOwner(f func(Owner) bool) bool {
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
		if f(o) {
			return true
		}
	}
	return false
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
