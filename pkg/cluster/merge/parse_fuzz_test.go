package merge

import (
	"encoding/base64"
	"testing"

	"kapis.dev/ks-apiserver/pkg/cluster/merge/version"
	"kapis.dev/ks-apiserver/pkg/query"
)

// A page of keys that a member sends is refused, or its rows are of that member, bounded, each once, and in order.
func FuzzKeys(f *testing.F) {
	a, b := base64.RawStdEncoding.EncodeToString([]byte("a")), base64.RawStdEncoding.EncodeToString([]byte("b"))
	for _, seed := range []string{
		"", "{}", `{"rows":[]}`, `{"totalItems":0,"metadata":{"resourceVersion":"1"},"rows":[]}`,
		`{"totalItems":2,"metadata":{"resourceVersion":"1"},"rows":[["` + a + `","n","a","u","1"],["` + b + `","n","b","v","2"]]}`,
		`{"totalItems":-1,"start":9,"metadata":{"resourceVersion":"x"},"rows":[["!","","","",""]]}`,
		`{"totalItems":9e99,"rows":null}`, `{"totalItems":1,"facets":{"a":{"b":-1}},"metadata":{"resourceVersion":"1"},"rows":[[]]}`,
	} {
		f.Add(seed, 10, -1)
		f.Add(seed, 10, 1)
	}
	f.Fuzz(func(t *testing.T, text string, limit, cluster int) {
		l := &list{Options: &Options{}, order: order{ascending: limit%2 == 0, cluster: min(max(cluster, -1), 4), names: []string{"a", "b", "c", "d"}}}
		limit = min(max(limit, 0), 1000)
		k, err := l.readKeys(text, 3, span{limit: limit, every: 1})
		if err != nil {
			return
		}
		if len(k.rows) > limit || k.total < len(k.rows) || k.start < 0 {
			t.Errorf("%d rows of %d from %d, of %d", len(k.rows), limit, k.start, k.total)
		}
		for i := range k.rows {
			if r := &k.rows[i]; r.source != 3 || r.name == "" || len(r.value) > query.MaxKey || i > 0 && l.order.compare(&k.rows[i-1], r) >= 0 {
				t.Errorf("row %d is %+v", i, r)
			}
		}
	})
}

// What clients send back of an answer, its position and its version, is refused or read as it was written.
func FuzzContinuations(f *testing.F) {
	position := position{Key: []byte("k"), Namespace: "n", Name: "a", Cluster: "c", Query: "sum"}
	f.Add(position.String(), version.Versions{{1}: 7}.String())
	f.Add("", "0")
	f.Add("!", "AQ")
	f.Fuzz(func(t *testing.T, next, seen string) {
		if p, err := parsePosition(next, "sum"); err == nil {
			again, err := parsePosition(p.String(), "sum")
			if err != nil || string(again.Key) != string(p.Key) || again.Name != p.Name || again.Namespace != p.Namespace || again.Cluster != p.Cluster {
				t.Errorf("%q is %+v, and then %+v: %v", next, p, again, err)
			}
		}
		if v, err := version.Parse(seen); err == nil {
			again, err := version.Parse(v.String())
			if err != nil || len(again) != len(v) || len(v) > maxSources*2 {
				t.Errorf("%q is %v, and then %v: %v", seen, v, again, err)
			}
		}
	})
}
