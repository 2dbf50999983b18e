package plan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Bounds on facets: how many values of one are answered, and how long a value may be to be counted by itself.
const (
	maxFacetValues = 1000
	maxFacetText   = 256
)

// FacetCounter counts the values of one field over all matches of a query. A field that is missing, null, an
// object or an array has the value "".
type FacetCounter struct {
	path    query.Path
	counts  map[string]int
	long    int   // matches whose value is too long to be counted by itself
	Bytes   int64 // of the counts
	Changed bool  // since FacetMembers wrote them
}

// countBytes is what a counted value costs besides its text.
const countBytes = 64

// NewFacetCounters returns a counter for each path, once for paths that are named twice.
func NewFacetCounters(paths []query.Path) []FacetCounter {
	var out []FacetCounter
	for _, p := range paths {
		if !slices.ContainsFunc(out, func(t FacetCounter) bool { return t.path.Is(p...) }) {
			out = append(out, FacetCounter{path: p, counts: map[string]int{}, Changed: true})
		}
	}
	return out
}

func (t *FacetCounter) value(r *index.Record) string {
	raw := rawjson.Get(r.JSON.String(), t.path...)
	if raw != "" && (raw[0] == '{' || raw[0] == '[') {
		return ""
	}
	return rawjson.Text(raw)
}

// Apply applies one change: was is what matched before, is what matches now, nil for nothing.
func (t *FacetCounter) Apply(was, is *index.Record) {
	var from, to string
	if was != nil {
		from = t.value(was)
	}
	if is != nil {
		to = t.value(is)
	}
	if was != nil && is != nil && from == to {
		return
	}
	if was != nil {
		t.add(from, -1)
	}
	if is != nil {
		t.add(to, 1)
	}
}

func (t *FacetCounter) add(value string, n int) {
	t.Changed = true
	if len(value) > maxFacetText {
		t.long += n
		return
	}
	count, known := t.counts[value]
	if !known {
		value = strings.Clone(value) // keep no old version alive
		t.Bytes += int64(len(value)) + countBytes
	}
	if count += n; count != 0 {
		t.counts[value] = count
		return
	}
	delete(t.counts, value)
	t.Bytes -= int64(len(value)) + countBytes
}

// append writes the counts as a member of "facets", the most frequent value first, and returns how
// many matches have a value that is not among them.
func (t *FacetCounter) append(dst []byte) (out []byte, others int) {
	type counted struct {
		value string
		n     int
	}
	all := make([]counted, 0, len(t.counts))
	for v, n := range t.counts {
		all = append(all, counted{v, n})
	}
	slices.SortFunc(all, func(a, b counted) int {
		return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.value, b.value))
	})
	others = t.long
	for ; len(all) > maxFacetValues; all = all[:len(all)-1] {
		others += all[len(all)-1].n
	}
	dst = append(rawjson.AppendString(dst, t.path.String()), ":{"...)
	for i, c := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(rawjson.AppendString(dst, c.value), ':'), int64(c.n), 10)
	}
	return append(dst, '}'), others
}

// FacetMembers returns the counters as the members "facets", an object of the values of each path with their counts, and,
// where a path has more values than are answered, "facetsOthers": how many matches have one of the others.
func FacetMembers(all []FacetCounter) string {
	if len(all) == 0 {
		return ""
	}
	dst, others := []byte(`,"facets":{`), []byte(nil)
	for i := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		var rest int
		all[i].Changed = false
		if dst, rest = all[i].append(dst); rest > 0 {
			others = append(rawjson.AppendString(append(others, ','), all[i].path.String()), ':')
			others = strconv.AppendInt(others, int64(rest), 10)
		}
	}
	dst = append(dst, '}')
	if len(others) > 0 {
		dst = append(append(dst, `,"facetsOthers":{`...), others[1:]...)
		dst = append(dst, '}')
	}
	return string(dst)
}
