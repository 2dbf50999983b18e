package row_test

import (
	"encoding/json"
	"testing"

	"kapis.dev/ks-apiserver/pkg/cluster/merge/row"
)

// What a member sends as an object, a row or an event is refused, or it becomes JSON that says of which cluster it is, and of no other one.
func FuzzItems(f *testing.F) {
	for _, seed := range []string{
		"", "{", "[", `{}`, `{"metadata":{"name":"a","uid":"u"}}`, `{"metadata":{"annotations":{"kapis.dev/cluster":"other"},"name":"a","uid":"u"}}`,
		`{"metadata":{"name":"a","Name":"b"}}`, `{"metadata":{"annotations":null}}`, `{"metadata":[]}`, `{"cells":[`, `{"cells":[],"object":{"metadata":{}}}`,
		`{"cells":["a",1],"object":{"metadata":{"name":"a","uid":"u"}}}`, `{"columnDefinitions":[{"name":"Name"}],"rows":[{"cells":["a"],"object":{"metadata":{"name":"a"}}}]}`,
		`{"columnDefinitions":"x","rows":{}}`, `{"metadata":{"annotations":{"kapis.dev\/cluster":"other"},"name":"a"}}`,
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, item string, table bool) {
		form := row.Form{Table: table}
		says := func(text string) {
			if !json.Valid([]byte(item)) {
				return // what a member sends is decoded before, and refused
			}
			var o struct {
				Metadata struct{ Annotations map[string]any } `json:"metadata"`
			}
			if err := json.Unmarshal([]byte(form.Object(text)), &o); err != nil || o.Metadata.Annotations[row.AnnotationCluster] != "mine" {
				t.Errorf("%q became %q: %v", item, text, err)
			}
		}
		id, err := form.Identify(item)
		if text, marked := form.OfCluster(item, "mine"); err == nil && marked == nil && id.Name != "" {
			says(text)
		}
		if json.Valid([]byte(item)) && err == nil && id.Name != "" {
			if marked, err := form.Mark(item, id, "mine"); err == nil {
				says(marked.String())
				if written := string(marked.AppendTo(nil)); written != marked.String() || len(written) != marked.Len() {
					t.Errorf("%q is written as %q", marked, written)
				}
			}
		}
		if text, columns, err := form.Event(item, "mine"); err == nil {
			says(text)
			if shown := columns.Shown(); json.Valid([]byte(item)) && !json.Valid([]byte(shown)) {
				t.Errorf("%q has the columns %q", item, shown)
			}
			_ = columns.As(row.Columns{}, text)
		}
		if columns, err := row.ColumnsOf(item); err == nil && json.Valid([]byte(item)) && !json.Valid([]byte(columns.Shown())) {
			t.Errorf("%q has the columns %q", item, columns.Shown())
		}
	})
}
