package resource

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/web"
)

// answered is the answer to a query for keys.
type answered struct {
	TotalItems, Start int
	Rows              [][]string
	Items             []struct {
		Metadata struct{ Name string }
		Spec     map[string]any
	}
}

func (w *world) answer(t *testing.T, raw, tag string) (*httptest.ResponseRecorder, *answered) {
	t.Helper()
	k, r := w.resolve(t, "", "pods"), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+raw, nil)
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	v, err := w.Answer(r, &Listing{Kind: k, Query: parsed(t, raw), Form: Items})
	if err != nil {
		t.Fatal(err)
	}
	rec, out := httptest.NewRecorder(), &answered{}
	v.(web.Responder).Respond(rec, r)
	if rec.Code == http.StatusOK {
		if err := json.Unmarshal(rec.Body.Bytes(), out); err != nil {
			t.Fatalf("%s: %v", rec.Body, err)
		}
	}
	return rec, out
}

// F34: the first objects may come with the keys: those, and as they are, that a list of so many has.
func TestObjectsComeWithTheirKeys(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: padded(20, 50)}, Options{})
	const order = "view=keys&sortBy=name&ascending=true&limit=6"
	_, plain := w.answer(t, order, "")
	rec, both := w.answer(t, order+"&objects=4", "")
	if len(plain.Items) != 0 || !slices.EqualFunc(plain.Rows, both.Rows, slices.Equal) || both.TotalItems != 20 || len(both.Items) != 4 {
		t.Fatalf("%+v\n%+v", plain, both)
	}
	for i := range both.Items {
		if both.Items[i].Metadata.Name != both.Rows[i][2] || both.Items[i].Spec == nil {
			t.Errorf("object %d is %+v, of the row %v", i, both.Items[i], both.Rows[i])
		}
	}
	tags := map[string]bool{}
	for _, more := range []string{"", "&objects=3", "&objects=4", "&objects=4&fields=.metadata.name"} {
		rec, _ := w.answer(t, order+more, "")
		tags[rec.Header().Get("Etag")] = true
	}
	if len(tags) != 4 {
		t.Errorf("different answers have the tags %v", tags)
	}
	if again, _ := w.answer(t, order+"&objects=4", rec.Header().Get("Etag")); again.Code != http.StatusNotModified {
		t.Errorf("the same again is %d", again.Code)
	}
	_, some := w.answer(t, order+"&objects=2&fields=.metadata.name", "")
	if len(some.Items) != 2 || some.Items[0].Spec != nil || some.Items[0].Metadata.Name == "" {
		t.Errorf("of some fields: %+v", some)
	}
	if _, later := w.answer(t, order+"&offset=18&objects=6", ""); len(later.Items) != 2 || later.Items[0].Metadata.Name != later.Rows[0][2] {
		t.Errorf("at the end: %+v", later)
	}
	for _, bad := range []string{"objects=-1", "objects=7", "objects=x", "objects=2&every=2"} {
		v, err := url.ParseQuery(order + "&" + bad)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := query.Parse(v); err == nil || !strings.Contains(err.Error(), "objects") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
