package resource

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

func secretWorld(t *testing.T) *world {
	secret := func(namespace, name string) string {
		return fmt.Sprintf(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":"u-%s-%s","resourceVersion":"7"},`+
			`"type":"Opaque","data":{"password":"canary-%s-%s"}}`, name, namespace, namespace, name, namespace, name)
	}
	config := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c","namespace":"a","uid":"u","resourceVersion":"8"},"data":{"k":"canary"},"binaryData":{"b":"canary"}}`
	return newWorld(t, map[string][]string{
		"/api/v1/secrets":                 {secret("a", "one"), secret("a", "two"), secret("b", "three")},
		"/api/v1/namespaces/a/secrets":    {secret("a", "one"), secret("a", "two")},
		"/api/v1/namespaces/b/secrets":    {secret("b", "three")},
		"/api/v1/configmaps":              {config},
		"/api/v1/namespaces/a/configmaps": {config},
	}, Options{})
}

// Data is answered in one namespace, to callers who may read it according to the scope, and to no others: not by the next query for the
// same, and not through filters, orders or single objects.
func TestDataIsAnsweredToWhoMayReadIt(t *testing.T) {
	w := secretWorld(t)
	secrets, configs := w.resolve(t, "", "secrets"), w.resolve(t, "", "configmaps")
	if !w.HasData(secrets) || !w.HasData(configs) || w.HasData(w.resolve(t, "", "pods")) {
		t.Error("HasData")
	}
	scopes := []struct {
		scope plan.Scope
		items int
		data  bool
	}{
		{plan.Scope{Namespace: "a"}, 2, false},
		{plan.Scope{Namespace: "a", Data: true}, 2, true},
		{plan.Scope{Namespace: "a"}, 2, false},
		{plan.Scope{}, 3, false},
		{plan.Scope{Data: true}, 3, false},
		{plan.Scope{Namespace: "b", Data: true}, 1, true},
		{plan.Scope{Namespace: "b"}, 1, false},
	}
	for _, raw := range []string{"", "sortBy=name", "sortBy=.metadata.uid", "type=Opaque", "fieldSelector=type%3DOpaque", "name=", "names=one,two,three"} {
		for range 2 { // the second time, the result is cached
			for _, c := range scopes {
				p, err := w.List(t.Context(), secrets, c.scope, parsed(t, raw))
				if err != nil {
					t.Fatal(err)
				}
				for i := range p.Len() {
					item := itemOf(p, i)
					if strings.Contains(item, "canary") != c.data || c.scope.Namespace != "" && !strings.Contains(item, `"namespace":"`+c.scope.Namespace+`"`) {
						t.Errorf("%q in %+v: %s", raw, c.scope, item)
					}
				}
				if p.Len() != c.items {
					t.Errorf("%q in %+v: %d items", raw, c.scope, p.Len())
				}
			}
		}
	}
	for _, raw := range []string{"fieldSelector=data.password%3Dcanary-a-one", "sortBy=.data.password&fieldSelector=data.password%3Dcanary-a-one"} {
		for data, want := range map[bool]int{false: 0, true: 1} {
			if p, err := w.List(t.Context(), secrets, plan.Scope{Namespace: "a", Data: data}, parsed(t, raw)); err != nil || p.Total != want {
				t.Errorf("%s with data %v: %v, %v", raw, data, p, err)
			}
		}
	}
	for _, data := range []bool{false, true} {
		o, err := w.Get(t.Context(), secrets, plan.Scope{Namespace: "a", Data: data}, "one")
		if err != nil || strings.Contains(o.JSON.String(), "canary") != data {
			t.Errorf("one secret with data %v: %+v, %v", data, o, err)
		}
		p, err := w.List(t.Context(), configs, plan.Scope{Namespace: "a", Data: data}, parsed(t, ""))
		if err != nil || strings.Count(itemOf(p, 0), "canary") != map[bool]int{false: 0, true: 2}[data] {
			t.Errorf("config maps with data %v: %v", data, err)
		}
	}
}

func TestWatchesSeeWhatListsSee(t *testing.T) {
	w := secretWorld(t)
	secrets := w.resolve(t, "", "secrets")
	for _, c := range []struct {
		scope plan.Scope
		items int
		data  bool
	}{{plan.Scope{Namespace: "a", Data: true}, 2, true}, {plan.Scope{Namespace: "a"}, 3, false}, {plan.Scope{Data: true}, 3, false}} {
		watch, err := w.planner.Watch(t.Context(), secrets, c.scope)
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Close()
		r, ok := watch.Snapshot().Get("a", "one")
		if !ok || strings.Contains(r.JSON.String(), "canary") != c.data || watch.Snapshot().Len() != c.items {
			t.Errorf("in %+v: %d objects, %v", c.scope, watch.Snapshot().Len(), r)
		}
	}
}

// A search that an index answers finds what a test of every object finds, in the same order.
func TestSearchesByIndexAreThoseOfAScan(t *testing.T) {
	const n = 5000
	pods := make([]string, n)
	for i := range pods {
		alias := ""
		if i%7 == 0 {
			alias = fmt.Sprintf(`"kubesphere.io/alias-name":"Shop %d"`, i)
		}
		pods[i] = fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-%d","namespace":"ns-%d","uid":"u%d","resourceVersion":"%d",`+
			`"creationTimestamp":"2026-01-02T03:04:%02dZ","labels":{"l":"%d"},"annotations":{%s}}}`, i, i%3, i, i+1, i*7%60, i%5, alias)
	}
	w := newWorld(t, map[string][]string{"/api/v1/pods": pods}, Options{})
	kind := w.resolve(t, "", "pods")
	snap, err := w.store.Snapshot(t.Context(), kind.GVR)
	if err != nil {
		t.Fatal(err)
	}
	queries := []string{
		"name=web-49",
		"name=b-49&sortBy=name",
		"name=SHOP%2049&sortBy=.metadata.uid",
		"name=web-49&name=9",
		"name=web&label=l%3D2",
		"name=zzz",
		"name=49",
	}
	all := func() (out []string) {
		w.results, w.pages = lru.New[*result](resultBounds), page.NewCache(DefaultMaxInFlight, DefaultMaxBytes)
		for _, raw := range queries {
			for _, scope := range []plan.Scope{{}, {Namespace: "ns-1"}} {
				p, err := w.List(t.Context(), kind, scope, parsed(t, raw))
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, fmt.Sprint(raw, scope, p.Total, keysOf(t, p)))
			}
		}
		return out
	}
	scanned := all() // no index is there at the first search
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(2 * time.Minute); !snap.Containing("web-49", func(*index.Ref) bool { return true }); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("no index is made")
		}
	}
	for i, got := range all() {
		if got != scanned[i] {
			t.Errorf("by index: %.200s\nby scan:  %.200s", got, scanned[i])
		}
	}
}
