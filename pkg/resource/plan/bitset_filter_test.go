package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// manyLabels are enough for the sets to be used. Their labels overlap in every way.
func manyLabels(n int) []string {
	r := rand.New(rand.NewPCG(9, 9))
	pods := make([]string, n)
	for i := range pods {
		labels := fmt.Sprintf(`"tier":"t%d"`, r.IntN(4))
		if r.IntN(3) > 0 {
			labels += fmt.Sprintf(`,"half":"h%d"`, r.IntN(2))
		}
		if r.IntN(5) == 0 {
			labels += `,"half2":""`
		}
		pods[i] = fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-%d","namespace":"ns-%d","uid":"u%d","resourceVersion":"%d",`+
			`"creationTimestamp":"2026-01-02T03:04:%02dZ","labels":{%s}},"spec":{"nodeName":"n%d"},"status":{"phase":"%s","startTime":"2026-01-02T03:%02d:00Z"}}`,
			r.IntN(n*4), r.IntN(2), i, i+1, r.IntN(60), labels, r.IntN(3), []string{"Running", "Pending"}[r.IntN(2)], r.IntN(60))
	}
	return pods
}

// The sets find what a test of every object finds, in the order of a sort.
func TestSetsFindWhatTestsFind(t *testing.T) {
	planner, kind, snap := manyPods(t, 12_000)
	filters := []string{
		"labelSelector=tier%3Dt1",
		"labelSelector=tier+notin+(t1,t2)",
		"labelSelector=half",
		"labelSelector=!half",
		"labelSelector=tier+in+(t1,t3)",
		"labelSelector=tier%3Dt1,half%3Dh0",
		"labelSelector=half,half!%3Dh1,tier!%3Dt2",
		"labelSelector=half2",
		"labelSelector=!half2,half%3Dh1",
		"label=tier!%3Dt0&phase=Running",
		"phase=Running&labelSelector=tier%3Dt2",
		"labelSelector=tier%3Dt1&uid=u7",
		"labelSelector=tier+notin+(t1)&fieldSelector=spec.nodeName%3Dn1",
		"labelSelector=none",
		"labelSelector=!none",
		"labelSelector=tier%3Dt1,tier%3Dt2",
		"label=half%3Dh0&names=web-1,web-2,web-3",
	}
	used := 0
	for _, raw := range filters {
		for _, sort := range []string{"", "&sortBy=name", "&sortBy=startTime", "&sortBy=namespace", "&sortBy=.spec.nodeName,name"} {
			for _, scope := range []Scope{{}, {Namespace: "ns-1"}} {
				b, err := planner.Plan(t.Context(), kind, scope, parsedQuery(t, raw+sort))
				if err != nil {
					t.Fatal(err)
				}
				naive := []*index.Ref{}
				snap.ByCreated(index.All()).Walk(0, false, func(ref *index.Ref) bool {
					if b.Holds(snap.Record(ref)) {
						naive = append(naive, ref)
					}
					return true
				})
				naive = inOrder(&b.Order, snap, naive, false)
				check := func(how string, list []*index.Ref, ordered bool) {
					t.Helper()
					list = inOrder(&b.Order, snap, list, ordered)
					if !slices.EqualFunc(list, naive, func(a, b *index.Ref) bool { return snap.Record(a) == snap.Record(b) }) {
						t.Errorf("%s%s in %+v, %s: %d objects of %d, or in another order", raw, sort, scope, how, len(list), len(naive))
					}
				}
				list, ordered, err := b.Collect(t.Context(), snap)
				if err != nil {
					t.Fatal(err)
				}
				check("as planned", list, ordered)
				s := &scan{Plan: &b.Plan, ctx: t.Context(), snap: snap}
				if ordered, ok := s.walkBitsets([]index.Term{b.base}, snap.Len()); ok {
					check("by sets", s.list, ordered)
					used++
				}
			}
		}
	}
	if used < 100 {
		t.Errorf("sets were used %d times", used)
	}
}

// inOrder returns refs in an order, as results store them.
func inOrder(o *Order, snap *index.Snapshot, refs []*index.Ref, ordered bool) []*index.Ref {
	out := []*index.Ref{}
	o.NewRows(snap, refs, ordered).Scan(func(r row) bool {
		out = append(out, r.ref)
		return true
	})
	return out
}

// manyPods returns a snapshot of pods of two namespaces, and a planner that knows their kind.
func manyPods(t testing.TB, n int) (*Planner, *store.Kind, *index.Snapshot) {
	t.Helper()
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	own := &Kind{
		Fields: []Field{
			{Name: "nodeName", Match: MatchExact, Path: query.Path{"spec", "nodeName"}},
			{Name: "phase", Match: MatchState, Path: query.Path{"status", "phase"}, States: []string{"Pending", "Running"}},
			{Name: SortStartTime, Sort: true, Time: true, Path: query.Path{"status", "startTime"}},
		},
		Extract: func(json string, v []string) {
			v[0], v[1] = rawjson.GetText(json, "spec", "nodeName"), rawjson.GetText(json, "status", "phase")
			v[2] = rawjson.GetText(json, "status", "startTime")
		},
	}
	planner, pod := New(nil, map[schema.GroupResource]*Kind{pods.GroupResource(): own}), &store.Kind{GVR: pods, Kind: "Pod", Namespaced: true}
	stored := own.StoreSchema()
	c := index.NewCollection(&stored, clock.RealClock{})
	var objects []*index.Incoming
	for _, text := range manyLabels(n) {
		objects = append(objects, incoming(t, &stored, text))
	}
	c.Replace(objects, "1")
	return planner, pod, c.Snapshot()
}

// BenchmarkBitsets compares a filter by two labels that match much of 12 000 objects: by bit sets, and object by object.
func BenchmarkBitsets(b *testing.B) {
	planner, kind, snap := manyPods(b, 12_000)
	p, err := planner.Plan(b.Context(), kind, Scope{}, parsedQuery(b, "labelSelector=half,tier!%3Dt1"))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("sets", func(b *testing.B) {
		for b.Loop() {
			s := &scan{Plan: &p.Plan, ctx: b.Context(), snap: snap}
			if _, ok := s.walkBitsets([]index.Term{p.base}, snap.Len()); !ok || len(s.list) == 0 {
				b.Fatal("sets are not used")
			}
		}
	})
	b.Run("each-object", func(b *testing.B) {
		for b.Loop() {
			n := 0
			snap.ByCreated(index.All()).Walk(0, false, func(ref *index.Ref) bool {
				if p.Holds(snap.Record(ref)) {
					n++
				}
				return true
			})
			if n == 0 {
				b.Fatal("nothing matches")
			}
		}
	})
}
