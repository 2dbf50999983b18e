package resource

import (
	"net/url"
	"testing"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

// BenchmarkBroad is the first evaluation of filters that match much of 100 000 pods, in orders that no term's range has.
func BenchmarkBroad(b *testing.B) {
	w := benchWorld(b, 100_000, 100)
	kind := w.resolve(b, "", "pods")
	if _, err := w.List(b.Context(), kind, plan.Scope{}, &query.Query{}); err != nil { // the first list is read
		b.Fatal(err)
	}
	for _, c := range []struct {
		name, raw string
		scope     plan.Scope
	}{
		{name: "label/byName", raw: "labelSelector=tier%3Dt1&sortBy=name"},
		{name: "label/byStartTime", raw: "labelSelector=tier%3Dt1&sortBy=startTime"},
		{name: "labelNotIn", raw: "labelSelector=tier+notin+(t1,t2)"},
		{name: "labelExists", raw: "labelSelector=tier"},
		{name: "labelIn", raw: "labelSelector=tier+in+(t1,t2)"},
		{name: "twoLabels", raw: "labelSelector=tier%3Dt1,half%3Dh0"},
		{name: "labelAndStatus", raw: "labelSelector=tier%3Dt1&status=Running"},
		{name: "labelInNamespace", raw: "labelSelector=tier%3Dt3", scope: plan.Scope{Namespace: "ns-7"}},
		{name: "name", raw: "name=web-77"},
		{name: "nameByName", raw: "name=web-77&sortBy=name"},
		{name: "nameRare", raw: "name=web-7777"},
	} {
		b.Run(c.name, func(b *testing.B) {
			v, _ := url.ParseQuery(c.raw + "&limit=10")
			q, err := query.Parse(v)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			total := 0
			for b.Loop() {
				w.results, w.pages = lru.New[*result](resultBounds), page.NewCache(DefaultMaxInFlight, DefaultMaxBytes)
				p, err := w.List(b.Context(), kind, c.scope, q)
				if err != nil {
					b.Fatal(err)
				}
				total = p.Total
			}
			b.ReportMetric(float64(total), "matches")
		})
	}
}
