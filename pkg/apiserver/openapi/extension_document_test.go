package openapi

import (
	"fmt"
	"strings"
	"testing"
)

// What is written of a document of a few MiB is not limited by its size, but by what is copied: the media types at its top into each
// operation, a schema once for each media type, and a long name into each reference.
func TestX11ADocumentTakesAFewTimesItsSize(t *testing.T) {
	list := func(n int, each func(i int) string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = each(i)
		}
		return strings.Join(all, ",")
	}
	types := func(n int) string {
		return `"produces":[` + list(n, func(i int) string { return fmt.Sprintf(`"application/x-%d"`, i) }) + `]`
	}
	schema := func(properties int) string {
		return `{"type":"object","properties":{` + list(properties, func(i int) string { return fmt.Sprintf(`"p%d":{"type":"string"}`, i) }) + `}}`
	}
	answers := func(before, schema string) string {
		return `{"get":{` + before + `"responses":{"200":{"description":"a","schema":` + schema + `}}}}`
	}
	paths := func(n int, item string) string {
		return `"paths":{` + list(n, func(i int) string { return fmt.Sprintf(`"%s/p%d":%s`, shopBase, i, item) }) + `}`
	}
	const head = `{"swagger":"2.0","info":{"title":"a","version":"1"},`
	for name, test := range map[string]struct {
		document string
		left     bool // out
	}{
		"the top":           {head + types(2000) + "," + paths(500, answers("", `{"type":"string"}`)) + "}", false},
		"an operation":      {head + paths(1, answers(types(1000)+",", schema(500))) + "}", false},
		"a long media type": {head + `"produces":["a/` + strings.Repeat("b", 50000) + `"],` + paths(500, answers("", `{"type":"string"}`)) + "}", false},
		"what is no list":   {head + `"consumes":{"a":"` + strings.Repeat("b", 50000) + `"},` + paths(500, answers("", `{"type":"string"}`)) + "}", false},
		"few, and large":    {head + paths(4, answers(types(maxMediaTypes)+",", schema(15000))) + "}", true},
		"references": {head + paths(1, answers("", `{"type":"object","properties":{`+list(60000, func(i int) string {
			return fmt.Sprintf(`"p%d":{"$ref":"#/definitions/a"}`, i)
		})+`}}`)) + `,"definitions":{"a":{"type":"object"}}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			if len(test.document) > MaxExtension {
				t.Fatalf("no document has %d bytes", len(test.document))
			}
			gv := shop
			if name == "references" {
				gv.Group = strings.Repeat("long.", 49) + "example"
				test.document = strings.ReplaceAll(test.document, shop.Group, gv.Group)
			}
			d, err := describe(gv, "/kapis", []byte(test.document))
			switch {
			case test.left && err == nil:
				t.Error("it is taken")
			case test.left:
				return
			case err != nil || d == nil:
				t.Fatalf("it is left out: %v", err)
			}
			size := len(d.v3[strings.TrimPrefix(shopBase, "/")].json.body)
			for _, m := range d.v2Members {
				size += len(m.text)
			}
			if size > 20*len(test.document) {
				t.Errorf("of %d bytes, %d are written", len(test.document), size)
			}
		})
	}
	few, err := describe(shop, "/kapis", []byte(head+paths(1, answers(types(maxMediaTypes)+",", schema(1)))+"}"))
	if err != nil {
		t.Fatal(err)
	}
	if body := few.v3[strings.TrimPrefix(shopBase, "/")].json.body; strings.Count(string(body), `"application/x-`) != maxMediaTypes {
		t.Errorf("a document of a few media types has others: %s", body)
	}
}
