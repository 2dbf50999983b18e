package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

func valued(t *testing.T, value string) *index.Record {
	text, _ := json.Marshal(map[string]any{"v": value})
	return &index.Record{JSON: textOf(t, string(text))}
}

func TestFacetsAreTheMostFrequentValuesFirst(t *testing.T) {
	all := NewFacetCounters([]query.Path{{"v"}, {"v"}})
	if len(all) != 1 {
		t.Fatalf("a path that is named twice is counted %d times", len(all))
	}
	a := &all[0]
	for i, v := range []string{"b", "a", "c", "b", `q"` + "\u2028", ""} {
		a.Apply(nil, valued(t, v))
		if i == 0 {
			a.Apply(nil, &index.Record{JSON: textOf(t, `{"v":null}`)})
			a.Apply(nil, &index.Record{JSON: textOf(t, `{"v":{"x":1}}`)})
			a.Apply(nil, &index.Record{JSON: textOf(t, `{"v":[1]}`)})
			a.Apply(nil, &index.Record{JSON: textOf(t, `{"v":3}`)})
			a.Apply(nil, &index.Record{JSON: textOf(t, `{}`)})
		}
	}
	if got, want := FacetMembers(all), `,"facets":{".v":{"":5,"b":2,"3":1,"a":1,"c":1,"q\"\u2028":1}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if a.Changed {
		t.Error("what is written still counts as changed")
	}
	a.Apply(valued(t, "b"), valued(t, "b"))
	if a.Changed {
		t.Error("a change of something else counts as one")
	}
	a.Apply(valued(t, "b"), valued(t, "a"))
	a.Apply(valued(t, "c"), nil)
	if got, want := FacetMembers(all), `,"facets":{".v":{"":5,"a":2,"3":1,"b":1,"q\"\u2028":1}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFacetsAreBounded(t *testing.T) {
	all := NewFacetCounters([]query.Path{{"v"}, {"w"}})
	a := &all[0]
	for i := range maxFacetValues + 5 {
		a.Apply(nil, valued(t, fmt.Sprint(i)))
	}
	a.Apply(nil, valued(t, "7"))
	long := strings.Repeat("x", maxFacetText+1)
	a.Apply(nil, valued(t, long))
	all[1].Apply(nil, valued(t, "")) // has no w
	var got struct {
		Facets map[string]map[string]int
		Others map[string]int `json:"facetsOthers"`
	}
	if err := json.Unmarshal([]byte("{"+FacetMembers(all)[1:]+"}"), &got); err != nil {
		t.Fatal(err)
	}
	if v := got.Facets[".v"]; len(v) != maxFacetValues || v["7"] != 2 || got.Others[".v"] != 6 || len(got.Others) != 1 || got.Facets[".w"][""] != 1 {
		t.Errorf("%d values, %v", len(v), got.Others)
	}
	if a.Apply(valued(t, long), nil); a.long != 0 {
		t.Errorf("%d long values", a.long)
	}
	for i := range maxFacetValues + 5 {
		a.Apply(valued(t, fmt.Sprint(i)), nil)
	}
	if a.Apply(valued(t, "7"), nil); a.Bytes != 0 || len(a.counts) != 0 {
		t.Errorf("%d bytes for %d values", a.Bytes, len(a.counts))
	}
}
