package row

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// MostValues is how many values of a facet an answer has, also that of one cluster.
const MostValues = 1000

// Facets are counts of all clusters.
type Facets struct{ of []facet }

type facet struct {
	name   string
	counts map[string]int
	others int
}

// Add adds the counts of one cluster, and how many objects of each facet have other values than those.
func (f *Facets) Add(of map[string]map[string]int, others map[string]int) {
	for name, counts := range of {
		i := slices.IndexFunc(f.of, func(one facet) bool { return one.name == name })
		if i < 0 {
			if len(f.of) >= 8 { // as many as can be asked for
				continue
			}
			i, f.of = len(f.of), append(f.of, facet{name: name, counts: map[string]int{}})
		}
		for value, n := range counts {
			f.of[i].counts[value] += n
		}
		f.of[i].others += others[name]
	}
}

// With returns the facets, and one more.
func (f *Facets) With(name string, counts map[string]int) *Facets {
	return &Facets{of: append(slices.Clip(f.of), facet{name: name, counts: counts})}
}

// Text returns them as members of an answer, as lists of one cluster have them: the most frequent value first.
func (f *Facets) Text() string {
	if len(f.of) == 0 {
		return ""
	}
	slices.SortFunc(f.of, func(a, b facet) int { return strings.Compare(a.name, b.name) })
	b, others := []byte(`,"facets":{`), []byte(nil)
	for i, one := range f.of {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(rawjson.AppendString(b, one.name), ":{"...)
		values := make([]string, 0, len(one.counts))
		for v := range one.counts {
			values = append(values, v)
		}
		slices.SortFunc(values, func(a, b string) int {
			return cmp.Or(cmp.Compare(one.counts[b], one.counts[a]), strings.Compare(a, b))
		})
		for ; len(values) > MostValues; values = values[:len(values)-1] {
			one.others += one.counts[values[len(values)-1]]
		}
		for j, v := range values {
			if j > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(append(rawjson.AppendString(b, v), ':'), int64(one.counts[v]), 10)
		}
		b = append(b, '}')
		if one.others > 0 {
			others = append(rawjson.AppendString(append(others, ','), one.name), ':')
			others = strconv.AppendInt(others, int64(one.others), 10)
		}
	}
	b = append(b, '}')
	if len(others) > 0 {
		b = append(append(append(b, `,"facetsOthers":{`...), others[1:]...), '}')
	}
	return string(b)
}
