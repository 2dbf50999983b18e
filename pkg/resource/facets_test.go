package resource

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

func valued(t *testing.T, value string) *index.Record {
	text, _ := json.Marshal(map[string]any{"v": value})
	return &index.Record{JSON: shownText(t, string(text))}
}

func TestFacetsAreTheMostFrequentValuesFirst(t *testing.T) {
	all := newFacetCounters([]query.Path{{"v"}, {"v"}})
	if len(all) != 1 {
		t.Fatalf("a path that is named twice is counted %d times", len(all))
	}
	a := &all[0]
	for i, v := range []string{"b", "a", "c", "b", `q"` + "\u2028", ""} {
		a.apply(nil, valued(t, v))
		if i == 0 {
			a.apply(nil, &index.Record{JSON: shownText(t, `{"v":null}`)})
			a.apply(nil, &index.Record{JSON: shownText(t, `{"v":{"x":1}}`)})
			a.apply(nil, &index.Record{JSON: shownText(t, `{"v":[1]}`)})
			a.apply(nil, &index.Record{JSON: shownText(t, `{"v":3}`)})
			a.apply(nil, &index.Record{JSON: shownText(t, `{}`)})
		}
	}
	if got, want := facetMembers(all), `,"facets":{".v":{"":5,"b":2,"3":1,"a":1,"c":1,"q\"\u2028":1}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if a.changed {
		t.Error("what is written still counts as changed")
	}
	a.apply(valued(t, "b"), valued(t, "b"))
	if a.changed {
		t.Error("a change of something else counts as one")
	}
	a.apply(valued(t, "b"), valued(t, "a"))
	a.apply(valued(t, "c"), nil)
	if got, want := facetMembers(all), `,"facets":{".v":{"":5,"a":2,"3":1,"b":1,"q\"\u2028":1}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFacetsAreBounded(t *testing.T) {
	all := newFacetCounters([]query.Path{{"v"}, {"w"}})
	a := &all[0]
	for i := range maxFacetValues + 5 {
		a.apply(nil, valued(t, fmt.Sprint(i)))
	}
	a.apply(nil, valued(t, "7"))
	long := strings.Repeat("x", maxFacetText+1)
	a.apply(nil, valued(t, long))
	all[1].apply(nil, valued(t, "")) // has no w
	var got struct {
		Facets map[string]map[string]int
		Others map[string]int `json:"facetsOthers"`
	}
	if err := json.Unmarshal([]byte("{"+facetMembers(all)[1:]+"}"), &got); err != nil {
		t.Fatal(err)
	}
	if v := got.Facets[".v"]; len(v) != maxFacetValues || v["7"] != 2 || got.Others[".v"] != 6 || len(got.Others) != 1 || got.Facets[".w"][""] != 1 {
		t.Errorf("%d values, %v", len(v), got.Others)
	}
	if a.apply(valued(t, long), nil); a.long != 0 {
		t.Errorf("%d long values", a.long)
	}
	for i := range maxFacetValues + 5 {
		a.apply(valued(t, fmt.Sprint(i)), nil)
	}
	if a.apply(valued(t, "7"), nil); a.bytes != 0 || len(a.counts) != 0 {
		t.Errorf("%d bytes for %d values", a.bytes, len(a.counts))
	}
}

func TestFacetsOfNoMatchesAreThere(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: manyPods(2)}, Options{})
	k := w.resolve(t, "", "pods")
	for _, raw := range []string{"name=absent", "label=v%3Dabsent", "serviceName=absent"} {
		p, err := w.list(t, k, plan.Scope{Namespace: "a"}, raw+"&facets=.status.phase")
		if err != nil || p.Total != 0 || p.facets != `,"facets":{".status.phase":{}}` {
			t.Errorf("%s: %+v, %v", raw, p, err)
		}
	}
}
