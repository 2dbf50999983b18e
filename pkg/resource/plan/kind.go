package plan

import (
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is what one kind has beyond metadata. Its fields are read once, when an object arrives.
type Kind struct {
	Fields  []Field
	Extract func(json string, values []string)
	// Cut names what is neither cached nor answered, besides hidden fields (package redaction).
	Cut rawjson.Cut
	// CutClusterWide names what is cached and answered in the scope of a namespace only.
	CutClusterWide rawjson.Cut
	// KeyCount is 1 more than the position of the field that has how many keys what CutClusterWide names has: index.Schema.KeyCount. Rows
	// of Tables show it to callers with Scope.KeyCount.
	KeyCount int
	// Params are parameters that Plan reads itself, besides those that are fields.
	Params []string
	// Plan adds what a filter needs that is more than a comparison with a field. Without a filter in the query it is not called.
	Plan func(b *Builder) error
	// NameField is 1 more than the position of a field that the name filter also searches.
	NameField int
	// WordsField is 1 more than the position of a field that q also searches. No index has it, so it is for kinds of few objects.
	WordsField int
	// Annotation is what another kind knows of the objects, nil for nothing.
	Annotation *DerivedAnnotation
	// CreatedSorts are sort keys of the kind that stand for the creation time, besides those of every kind.
	CreatedSorts []string
	// Members says that the parameter namespace selects the members of one, and not objects in it.
	Members bool
}

// Field is one value of an object: a filter by its name, a sort key, or both.
type Field struct {
	Name string
	// Path is where in the object the field stands, nil where it is computed from several. Field selectors and sort keys
	// that name the path read the field.
	Path query.Path
	// Match is how the parameter of that name is compared; matchNone for none. States are the values that
	// the field can have, for MatchState.
	Match  match
	States []string
	// Sort makes the field a sort key, under its name or those in Sorts; Time says that it is an RFC 3339 time, which gets
	// an order of its own.
	Sort  bool
	Time  bool
	Sorts []string
	// Inside says that the store finds the objects of a namespace by a line of the field, for MatchMember.
	Inside bool
}

// match is how a filter's value is compared with a field.
type match uint8

const (
	matchNone match = iota
	// MatchExact is equality; the field is indexed.
	MatchExact
	// MatchState is equality with one of the alternatives between `|`, case-insensitively; the field is indexed.
	MatchState
	// MatchContains holds where the field contains the value.
	MatchContains
	// MatchMember holds where the value is one of the field's lines.
	MatchMember
)

// indexed reports whether the store finds objects by the field.
func (f *Field) indexed() bool { return f.Match == MatchExact || f.Match == MatchState }

// statesOf returns the states that a filter names, written as the field has them.
func (f *Field) statesOf(filter string) []string {
	out := strings.Split(filter, "|")
	for i, want := range out {
		if at := slices.IndexFunc(f.States, func(s string) bool { return strings.EqualFold(s, want) }); at >= 0 {
			out[i] = f.States[at]
		}
	}
	return out
}

// at returns the position of the field that stands at a path, -1 where none does.
func (k *Kind) at(path query.Path) int {
	return slices.IndexFunc(k.Fields, func(f Field) bool { return f.Path != nil && slices.Equal(f.Path, path) })
}

// The sort keys that every kind has, besides its own and the paths of fields.
const (
	sortName        = "name"
	sortNamespace   = "namespace"
	sortCreated     = "creationTimestamp"
	sortCreateTime  = "createTime"
	SortUpdateTime  = "updateTime"
	sortStoreTime   = "create_time" // as the pages of the app store write it
	SortStartTime   = "startTime"
	SortLastUpdated = "lastUpdateTimestamp"
)

// filterParams are the names of the parameters that say which objects of the kind match.
func (k *Kind) filterParams() []string {
	out := append([]string(nil), k.Params...)
	for _, f := range k.Fields {
		if f.Match != matchNone {
			out = append(out, f.Name)
		}
	}
	return out
}

// ordered returns the positions of the fields that have an order of their own.
func (k *Kind) ordered() []int {
	var out []int
	for i, f := range k.Fields {
		if f.Sort && f.Time {
			out = append(out, i)
		}
	}
	return out
}

// sortField returns the position of the field that is the sort key name, -1 where none is.
func (k *Kind) sortField(name string) int {
	for i, f := range k.Fields {
		if !f.Sort {
			continue
		}
		if f.Name == name {
			return i
		}
		for _, s := range f.Sorts {
			if s == name {
				return i
			}
		}
	}
	return -1
}

// sortKeys names the sort keys of the kind.
func (k *Kind) sortKeys() []string {
	out := []string{sortName, sortNamespace, sortCreated, sortCreateTime, SortUpdateTime, SortStartTime}
	for _, f := range k.Fields {
		if !f.Sort {
			continue
		}
		for _, name := range append([]string{f.Name}, f.Sorts...) {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return append(append(out, k.CreatedSorts...), "a field path such as .spec.replicas")
}

// StoreSchema returns the kind's schema for the store.
func (k *Kind) StoreSchema() index.Schema {
	s := index.Schema{Fields: len(k.Fields), Ordered: k.ordered(), Extract: k.Extract, Cut: k.Cut, CutClusterWide: k.CutClusterWide,
		KeyCount: k.KeyCount}
	if k.NameField > 0 {
		s.Searched = []int{k.NameField - 1}
	}
	for i, f := range k.Fields {
		if f.indexed() {
			s.Indexed = append(s.Indexed, i)
		}
		if f.Inside {
			s.Members = append(s.Members, i)
		}
	}
	return s
}

// Completed reports whether answers add to the objects of the cache.
func (k *Kind) Completed() bool { return k.Annotation != nil }

// DerivedAnnotation is one or several annotations that answers add to the objects of a kind: what another kind knows of them. They are
// found by an index of that kind, for the objects of the page alone, and are no part of the object: no filter and no watch sees them.
type DerivedAnnotation struct {
	Keys []string
	From schema.GroupVersionResource
	// Total says that the values count all objects of the other kind, and so are shown only to callers who may list them all.
	Total bool
	// Of returns the value of each key; an empty one is not shown.
	Of func(from *index.Snapshot, r *index.Record) []string
}
