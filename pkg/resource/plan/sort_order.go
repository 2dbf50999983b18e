package plan

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Order is how the matches of a query are ordered, ascending.
type Order struct {
	base baseOrder
	time int       // for byTime: which of the kind's ordered fields
	keys []sortKey // for byTime and byKeys
}

// baseOrder says whether an order is that of a tree, or is sorted.
type baseOrder uint8

const (
	byCreated baseOrder = iota
	byName
	byTime
	byNamespace
	byKeys
)

// sortKey compares two objects by one key.
type sortKey struct {
	refs  func(a, b *index.Ref) int     // for keys of the ref
	ofRef func(*index.Ref) SortValue    // the same as values
	value func(*index.Record) SortValue // for others
	field int                           // for byTime: the position of the field
}

// orderOf reads the sort keys of a query. single says that all objects are in one namespace, or in none.
func orderOf(q *query.Query, k *Kind, single bool) (Order, error) {
	var o Order
	for i, key := range q.SortBy {
		s, base, err := sortKeyOf(key, k)
		if err != nil {
			return o, err
		}
		if o.base = base; len(q.SortBy) > 1 {
			o.base = byKeys
		}
		if o.base == byTime {
			o.time = slices.Index(k.ordered(), s.field)
		}
		if i == 0 && base == byNamespace && single && len(q.SortBy) == 1 {
			o.base = byName // within a namespace it is the same
		}
		o.keys = append(o.keys, s)
	}
	return o, nil
}

func sortKeyOf(key query.SortKey, k *Kind) (sortKey, baseOrder, error) {
	if key.Path != nil {
		return pathKey(key.Path, k)
	}
	if i := k.sortField(key.Name); i >= 0 {
		return fieldKey(i, k)
	}
	switch key.Name {
	case sortName:
		return nameKey()
	case sortNamespace:
		return namespaceKey()
	case sortCreated, sortCreateTime, sortStoreTime, SortUpdateTime, SortStartTime:
		return createdKey()
	}
	if slices.Contains(k.CreatedSorts, key.Name) {
		return createdKey()
	}
	return sortKey{}, 0, query.Invalid("sortBy", key.Name, "one of "+strings.Join(k.sortKeys(), ", "))
}

func nameKey() (sortKey, baseOrder, error) {
	return sortKey{refs: func(a, b *index.Ref) int { return strings.Compare(a.Name, b.Name) },
		ofRef: func(r *index.Ref) SortValue { return SortValue{class: classText, text: r.Name} }}, byName, nil
}

func namespaceKey() (sortKey, baseOrder, error) {
	return sortKey{refs: func(a, b *index.Ref) int { return strings.Compare(a.Namespace, b.Namespace) },
		ofRef: func(r *index.Ref) SortValue { return SortValue{class: classText, text: r.Namespace} }}, byNamespace, nil
}

func createdKey() (sortKey, baseOrder, error) {
	return sortKey{refs: func(a, b *index.Ref) int { return cmp.Compare(a.Created, b.Created) }, ofRef: createdValue}, byCreated, nil
}

// pathKey is the order by a field of the object: by the cached field where there is one.
func pathKey(path query.Path, k *Kind) (sortKey, baseOrder, error) {
	switch {
	case path.Is("metadata", "name"):
		return nameKey()
	case path.Is("metadata", "namespace"):
		return namespaceKey()
	case path.Is("metadata", "creationTimestamp"):
		return createdKey()
	}
	inObject := func(r *index.Record) SortValue { return ValueOf(rawjson.Get(r.JSON.String(), path...)) }
	i := k.at(path)
	if i < 0 {
		return sortKey{value: inObject}, byKeys, nil
	}
	if k.Fields[i].Time && k.Fields[i].Sort {
		return fieldKey(i, k)
	}
	return sortKey{value: func(r *index.Record) SortValue {
		if text := r.Fields[i]; text != "" {
			return valueOfText(text)
		}
		return inObject(r) // which may be "" or missing
	}}, byKeys, nil
}

// fieldKey is the order by a field of the kind: by time where it is one.
func fieldKey(i int, k *Kind) (sortKey, baseOrder, error) {
	if k.Fields[i].Time {
		return sortKey{field: i, value: func(r *index.Record) SortValue {
			return SortValue{class: classTime, number: float64(index.Seconds(r.Fields[i]))}
		}}, byTime, nil
	}
	return sortKey{value: func(r *index.Record) SortValue { return textValue(r.Fields[i]) }}, byKeys, nil
}

// The classes of sort values, in their order.
const (
	classMissing = iota
	classNumber
	classTime
	classText
)

// SortValue is a value that can be compared with that of any other object.
type SortValue struct {
	class  uint8
	number float64
	text   string
}

// Compare orders values of any classes.
func (a SortValue) Compare(b SortValue) int {
	if c := cmp.Compare(a.class, b.class); c != 0 {
		return c
	}
	if a.class == classText {
		return strings.Compare(a.text, b.text)
	}
	return cmp.Compare(a.number, b.number)
}

// ValueOf reads a field: numbers as numbers, quantities as quantities, times as times, any other scalar as text. Objects and arrays have no
// order, and count as missing.
func ValueOf(raw string) SortValue {
	if raw == "" || raw == "null" || raw[0] == '{' || raw[0] == '[' {
		return SortValue{}
	}
	return valueOfText(rawjson.Text(raw))
}

// maxText is how much of a text is compared, in bytes: rows have copies of it.
const maxText = 256

func textValue(text string) SortValue {
	return SortValue{class: classText, text: text[:min(len(text), maxText)]}
}

func valueOfText(text string) SortValue {
	if text == "" || text[0] != '-' && text[0] != '+' && (text[0] < '0' || text[0] > '9') {
		return textValue(text)
	}
	if n, ok := quantity(text); ok {
		return SortValue{class: classNumber, number: n}
	}
	if len(text) >= len("2006-01-02T15:04:05Z") && text[4] == '-' {
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return SortValue{class: classTime, number: float64(t.UnixMicro())}
		}
	}
	return textValue(text)
}

// quantity reads a number, or one with a suffix of the quantities of Kubernetes. It reads in no time values for which the
// library, which is exact, may need a minute, such as 1e-99999999.
func quantity(text string) (float64, bool) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n, true
	}
	number := strings.TrimRight(text, "inumkKMGTPE")
	factor, ok := factorOf(text[len(number):])
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(number, 64)
	return n * factor, err == nil
}

// factorOf is what the suffix of a quantity stands for (apimachinery's resource.Quantity).
func factorOf(suffix string) (float64, bool) {
	switch suffix {
	case "n":
		return 1e-9, true
	case "u":
		return 1e-6, true
	case "m":
		return 1e-3, true
	}
	at := strings.Index("kMGTPE", suffix)
	if len(suffix) == 1 && at >= 0 {
		return math.Pow10(3 * (at + 1)), true
	}
	if at = strings.Index("KiMiGiTiPiEi", suffix); len(suffix) == 2 && at >= 0 && at%2 == 0 {
		return math.Ldexp(1, 10*(at/2+1)), true
	}
	return 0, false
}
