package resource

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/resource/table"
)

// discard is a client that reads nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) WriteHeader(int)             {}
func (d discard) Write(p []byte) (int, error) { return len(p), nil }

func benchWorld(b *testing.B, n, size int) *world {
	pad := strings.Repeat("x", size)
	pods := make([]string, n)
	for i := range pods {
		pods[i] = fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-%d","namespace":"ns-%d","uid":"u-%d","resourceVersion":"%d",`+
			`"creationTimestamp":"2026-01-02T%02d:%02d:%02dZ","labels":{"app":"web-%d","tier":"t%d","half":"h%d"}},"spec":{"nodeName":"node-%d","pad":%q},`+
			`"status":{"phase":"Running","startTime":"2026-01-02T03:04:05Z"}}`, i, i%100, i, i+1, i/3600%24, i/60%60, i%60, i%500, i%4, i%4/2, i%50, pad)
	}
	return newWorld(b, map[string][]string{"/api/v1/pods": pods}, Options{MaxItems: 1 << 20})
}

// BenchmarkList is a page of ten: parsed, found, and ready to be written.
func BenchmarkList(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		w := benchWorld(b, n, 100)
		kind := w.resolve(b, "", "pods")
		if _, err := w.List(context.Background(), kind, plan.Scope{}, &query.Query{}); err != nil { // the first list is read
			b.Fatal(err)
		}
		for _, c := range []struct {
			name, raw string
			scope     plan.Scope
			fresh     bool
		}{
			{name: "first", raw: "limit=10"},
			{name: "middle", raw: fmt.Sprintf("limit=10&page=%d", n/20)},
			{name: "byName", raw: "limit=10&sortBy=name&ascending=true&page=7"},
			{name: "namespace", raw: "limit=10", scope: plan.Scope{Namespace: "ns-7"}},
			{name: "label", raw: "limit=10&labelSelector=tier%3Dt1"},
			{name: "status", raw: "limit=10&status=Running"},
			{name: "nameContainsAgain", raw: "limit=10&name=web-77"},
			{name: "nameContains", raw: "limit=10&name=web-77", fresh: true},
			{name: "labelInNamespace", raw: "limit=10&labelSelector=tier%3Dt3", scope: plan.Scope{Namespace: "ns-7"}, fresh: true},
			{name: "sortByStartTime", raw: "limit=10&sortBy=startTime", fresh: true},
			{name: "fieldPath", raw: "limit=10&fieldSelector=spec.nodeName%3Dnode-3", fresh: true},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, c.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					v, _ := url.ParseQuery(c.raw)
					q, err := query.Parse(v)
					if err != nil {
						b.Fatal(err)
					}
					if c.fresh {
						w.results, w.pages = lru.New[*result](resultBounds), page.NewCache(DefaultMaxInFlight, DefaultMaxBytes)
					}
					if p, err := w.List(context.Background(), kind, c.scope, q); err != nil || p.Len() != 10 {
						b.Fatal(p, err)
					}
				}
			})
		}
	}
}

// BenchmarkRespond finds and writes pages of pods of 5.6 KB that are requested again, in all forms.
func BenchmarkRespond(b *testing.B) {
	w := benchWorld(b, 1000, 5400)
	kind := w.resolve(b, "", "pods")
	for _, c := range []struct{ name, limit, header, value string }{
		{"10", "10", "", ""}, {"100", "100", "", ""}, {"10/gzip", "10", "Accept-Encoding", "gzip"}, {"100/gzip", "100", "Accept-Encoding", "gzip"},
		{"10/notModified", "10", "If-None-Match", "*"},
	} {
		b.Run(c.name, func(b *testing.B) {
			q, _ := query.Parse(url.Values{"limit": {c.limit}})
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			if c.header != "" {
				r.Header.Set(c.header, c.value)
			}
			d := discard{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				p, err := w.List(context.Background(), kind, plan.Scope{}, q)
				if err != nil {
					b.Fatal(err)
				}
				p.Items().Respond(d, r)
			}
		})
	}
}

// BenchmarkTable finds and writes a page of ten pods of 5.6 KB as a Table, and as JSON.
func BenchmarkTable(b *testing.B) {
	w := benchWorld(b, 1000, 5400)
	kind := w.resolve(b, "", "pods")
	for _, name := range []string{"JSON", "Table"} {
		b.Run(name, func(b *testing.B) {
			q, _ := query.Parse(url.Values{"limit": {"10"}})
			r, d := httptest.NewRequest(http.MethodGet, "/", nil), discard{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				p, err := w.List(context.Background(), kind, plan.Scope{}, q)
				if err != nil {
					b.Fatal(err)
				}
				if name == "JSON" {
					p.Items().Respond(d, r)
					continue
				}
				w.Tables.For(context.Background(), kind, plan.Scope{}, &table.Form{}).Page(p, "").Respond(d, r)
			}
		})
	}
}
