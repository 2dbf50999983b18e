package resource

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"testing"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

// moved is pod i of benchWorld in another version, on another node.
func moved(i, version int) string {
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-%d","namespace":"ns-%d","uid":"u-%d","resourceVersion":"%d",`+
		`"creationTimestamp":"2026-01-02T%02d:%02d:%02dZ","labels":{"app":"web-%d"}},"spec":{"nodeName":"node-%d"},"status":{"phase":"Running"}}`,
		i, i%100, i, version, i/3600%24, i/60%60, i%60, i%500, (i+version)%50)
}

// BenchmarkStanding is a page of ten of a cached result after some changes, at 100 000 objects.
func BenchmarkStanding(b *testing.B) {
	const n = 100_000
	w := benchWorld(b, n, 100)
	kind := w.resolve(b, "", "pods")
	version := 1000 // that of the list
	for _, raw := range []string{"name=web-7", "sortBy=.spec.nodeName", "fieldSelector=spec.nodeName!%3Dnode-3&facets=.spec.nodeName"} {
		for _, changes := range []int{0, 1, 100} {
			b.Run(fmt.Sprintf("%s/%d", raw, changes), func(b *testing.B) {
				ask := func() {
					v, _ := url.ParseQuery(raw + "&limit=10&resourceVersion=" + strconv.Itoa(version))
					q, err := query.Parse(v)
					if err != nil {
						b.Fatal(err)
					}
					if p, err := w.List(context.Background(), kind, plan.Scope{}, q); err != nil || p.Len() != 10 {
						b.Fatal(p, err)
					}
				}
				ask()
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					if changes > 0 {
						b.StopTimer()
						for range changes {
							version = max(version, n) + 1
							w.send(podsPath, "MODIFIED", moved(version*7919%n, version))
						}
						v, _ := query.Parse(url.Values{"limit": {"0"}, "resourceVersion": {strconv.Itoa(version)}})
						if _, err := w.List(context.Background(), kind, plan.Scope{}, v); err != nil { // the cache is there
							b.Fatal(err)
						}
						b.StartTimer()
					}
					ask()
				}
			})
		}
	}
}
