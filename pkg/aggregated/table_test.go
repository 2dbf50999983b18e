package aggregated

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
)

// asTable is the header by which kubectl asks for Tables.
const asTable = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"

type tableAnswer struct {
	metav1.Table
	TotalItems *int
	Facets     json.RawMessage
}

func tableOf(t *testing.T, text []byte) (out tableAnswer, names string) {
	t.Helper()
	if err := json.Unmarshal(text, &out); err != nil || out.Kind != "Table" || out.APIVersion != "meta.k8s.io/v1" {
		t.Fatalf("no Table: %v: %s", err, text)
	}
	for _, r := range out.Rows {
		names += fmt.Sprint(r.Cells[0]) + " "
	}
	return out, strings.TrimSpace(names)
}

func TestListsAreTablesForKubectl(t *testing.T) { // O33
	c := &cluster{within: []string{"a"}}
	c.allow(allPods, "ann list /namespaces /", "ann get /pods a/p1", "bob list /pods a/")
	h := serve(t, c, kapistest.NewService(t))
	rec := ask(t, h, http.MethodGet, root+"/pods?limit=2&facets=.metadata.namespace", "", asTable)
	got, names := tableOf(t, rec.Body.Bytes())
	if names != "p1 p2" || len(got.ColumnDefinitions) != 9 || got.ColumnDefinitions[1].Name != "Ready" || got.Continue == "" ||
		got.RemainingItemCount == nil || *got.RemainingItemCount != 1 || *got.TotalItems != 3 || got.Facets == nil || got.ResourceVersion == "" {
		t.Errorf("got %s", rec.Body)
	}
	if object := string(got.Rows[0].Object.Raw); !strings.Contains(object, `"kind":"PartialObjectMetadata"`) ||
		!strings.Contains(object, `"namespace":"a"`) || strings.Contains(object, `"spec"`) {
		t.Errorf("got %s", object)
	}
	if rec.Header().Get("ETag") != "" || !strings.Contains(rec.Header().Get("Vary"), "Accept,") {
		t.Errorf("a Table has ages, which change: %v", rec.Header())
	}
	rec = ask(t, h, http.MethodGet, root+"/pods?continue="+url.QueryEscape(got.Continue), "", asTable)
	if got, names := tableOf(t, rec.Body.Bytes()); names != "p3" || got.Continue != "" {
		t.Errorf("got %s", rec.Body)
	}
	if got, names := tableOf(t, ask(t, h, http.MethodGet, root+"/namespaces/a/pods/p1", "", asTable).Body.Bytes()); names != "p1" ||
		len(got.Rows) != 1 || got.TotalItems != nil {
		t.Errorf("an object is %+v", got)
	}
	if got, _ := tableOf(t, ask(t, h, http.MethodGet, root+"/namespaces", "", asTable).Body.Bytes()); got.ColumnDefinitions[1].Name != "Status" {
		t.Errorf("namespaces have %+v", got.ColumnDefinitions)
	}
	rec = ask(t, h, http.MethodGet, root+"/pods", "", asTable, "X-Remote-User: bob")
	if _, names := tableOf(t, rec.Body.Bytes()); names != "p1 p2" || rec.Header().Get("X-Kapis-Partial") != "true" {
		t.Errorf("a partial list has %q, %v", names, rec.Header())
	}
	if rec := ask(t, h, http.MethodGet, root+"/namespaces/b/pods/p3", "", asTable); rec.Code != http.StatusForbidden {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

func TestRowsHaveWhatIncludeObjectSays(t *testing.T) { // O33
	c := &cluster{}
	c.allow(allPods, "ann get /pods a/p1", "ann watch /pods /")
	h := serve(t, c, kapistest.NewService(t))
	for include, has := range map[string]string{"None": `"object":null`, "Metadata": `"PartialObjectMetadata"`, "Object": `"object":{"kind":"Pod"`} {
		for _, path := range []string{"/pods?limit=1&", "/namespaces/a/pods/p1?"} {
			if rec := ask(t, h, http.MethodGet, root+path+"includeObject="+include, "", asTable); !strings.Contains(rec.Body.String(), has) {
				t.Errorf("%s: %s has no %s", path, rec.Body, has)
			}
		}
	}
	rec := ask(t, h, http.MethodGet, root+"/pods?limit=1&includeObject=Object&fields=.metadata.name", "", asTable)
	if got, names := tableOf(t, rec.Body.Bytes()); names != "p1" || strings.Contains(string(got.Rows[0].Object.Raw), "namespace") {
		t.Errorf("fields: %s", rec.Body)
	}
	for _, path := range []string{"/pods?", "/namespaces/a/pods/p1?", "/pods?watch=true&", "/pods?view=live&limit=2&"} {
		rec := ask(t, h, http.MethodGet, root+path+"includeObject=all", "", asTable)
		if rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), "None, Metadata or Object") {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
	if rec := ask(t, h, http.MethodGet, root+"/pods?limit=1", "", "Accept: application/json"); strings.Contains(rec.Body.String(), "Table") {
		t.Errorf("JSON was asked for: %s", rec.Body)
	}
}

// event is a line of a stream.
type event struct {
	Type              string
	Object            json.RawMessage
	ColumnDefinitions []any // of a live page
	Items             []json.RawMessage
}

// firstEvents returns the first n events of a stream of Tables.
func firstEvents(t *testing.T, h http.Handler, path string, n int) []event {
	t.Helper()
	srv := httptest.NewServer(h)
	defer srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+root+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Remote-User", "ann")
	name, value, _ := strings.Cut(asTable, ": ")
	r.Header.Set(name, value)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	d, out := json.NewDecoder(res.Body), make([]event, n)
	for i := range out {
		if err := d.Decode(&out[i]); err != nil {
			t.Fatalf("%d: %v", res.StatusCode, err)
		}
	}
	return out
}

func TestStreamsAreTablesForKubectl(t *testing.T) { // O33
	c := &cluster{}
	c.allow(allPods, "ann watch /pods /")
	h := serve(t, c, kapistest.NewService(t))
	const initial = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	for i, e := range firstEvents(t, h, "/pods?watch=true"+initial, 4) {
		got, names := tableOf(t, e.Object)
		if i == 3 {
			if e.Type != "BOOKMARK" || !strings.Contains(string(e.Object), "initial-events-end") || got.ResourceVersion != "9" {
				t.Errorf("got %s %s", e.Type, e.Object)
			}
			continue
		}
		if e.Type != "ADDED" || !strings.HasPrefix(names, "p") || len(got.Rows) != 1 || (len(got.ColumnDefinitions) == 9) != (i == 0) {
			t.Errorf("event %d: %s %s", i, e.Type, e.Object)
		}
	}
	live := firstEvents(t, h, "/pods?view=live&limit=2&sortBy=name&ascending=true", 1)[0]
	if len(live.ColumnDefinitions) != 9 || len(live.Items) != 2 || !strings.HasPrefix(string(live.Items[0]), `{"cells":["p1",`) {
		t.Errorf("got %+v", live)
	}
}
