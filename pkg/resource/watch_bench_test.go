package resource

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/resource/watch"
	"kapis.dev/ks-apiserver/pkg/stream"
)

// sink is a client that accepts everything at once.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Flush()                      {}

// measured is a watch whose history is sent again and again.
type measured struct {
	*watch.Watching
	b *testing.B
	n uint64
}

func (m *measured) Stream(_ context.Context, out *stream.Writer) {
	end := m.From.Snapshot().Position()
	for m.b.Loop() {
		m.At = end - m.n
		for more := true; more; {
			more, _ = m.Changes(out)
			out.Flush()
		}
	}
	m.b.ReportMetric(float64(m.b.Elapsed().Nanoseconds())/float64(m.b.N)/float64(m.n), "ns/change")
}

// What one watcher costs for one change of a pod of 5.6 KB.
func BenchmarkWatcher(b *testing.B) {
	c := newLiveCluster(b)
	const n = 1000
	if _, err := c.store.Snapshot(b.Context(), c.kind("pods").GVR); err != nil {
		b.Fatal(err)
	}
	rest := `,"labels":{"app":"x"}},"spec":{"nodeName":"n","text":"` + strings.Repeat("x", 5400) + `"}}`
	for i := range n {
		c.put(podsAt, "a", "p"+strconv.Itoa(i%100), rest, true)
	}
	c.settle("pods")
	for _, q := range []struct {
		name, query string
		scope       plan.Scope
	}{
		{"All", "", plan.Scope{}},
		{"AnotherNamespace", "", plan.Scope{Namespace: "b"}},
		{"AnotherLabel", "labelSelector=app%3Dy", plan.Scope{}},
		{"AnotherField", "fieldSelector=spec.nodeName%3Dm", plan.Scope{}},
	} {
		b.Run(q.name, func(b *testing.B) {
			b.ReportAllocs()
			x, err := c.Streams.Watch(b.Context(), c.kind("pods"), q.scope, parsed(b, q.query), "")
			if err != nil {
				b.Fatal(err)
			}
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", nil)
			stream.New(stream.Options{}).Answer(&measured{x, b, n}).Respond(&sink{http.Header{}}, r)
		})
	}
}
