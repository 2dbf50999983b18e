package resource

import (
	"encoding/json"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store"
)

// Annotated returns the page with an annotation in each of its objects, whose value is what of says of the object's name: an answer that tells
// of an object what another kind knows. An annotation of that key which is stored is not shown. It costs as much as the page is long.
func (p *Page) Annotated(key string, of func(name string) string) *Page {
	out := *p
	out.body = nil
	out.records = make([]*store.Record, len(p.records))
	for i, r := range p.records {
		// Without a version of its own, the digest is of its text: what the annotation says changes without the object.
		out.records[i] = &store.Record{Ref: r.Ref, JSON: annotate(r.JSON, key, of(r.Name)), UID: r.UID}
	}
	out.digest, out.bytes = digestOf(out.records)
	return &out
}

// Annotated is the JSON of the object with an annotation in it, as those of a Page have.
func (o *Object) Annotated(key, value string) string { return annotate(o.JSON, key, value) }

// annotate sets an annotation of an object, or takes it away where value is empty.
func annotate(object, key, value string) string {
	cut, err := rawjson.AppendWithout(make([]byte, 0, len(object)+len(key)+len(value)+32), object, "",
		rawjson.Cut{"metadata": {"annotations": {key: nil}}})
	if err != nil {
		return object // it never was an object
	}
	text := string(cut)
	if value == "" {
		return text
	}
	quoted, _ := json.Marshal(map[string]string{key: value}) // strings always can be
	member := string(quoted[1 : len(quoted)-1])
	if start, end, ok := rawjson.Span(text, "metadata", "annotations"); ok && text[start] == '{' {
		return insert(text, start, text[start:end], member)
	}
	start, end, ok := rawjson.Span(text, "metadata")
	if !ok || text[start] != '{' {
		return text
	}
	return insert(text, start, text[start:end], `"annotations":{`+member+`}`)
}

// insert puts a member in front of those of the object, which begins at start of the text.
func insert(text string, start int, object, member string) string {
	if m := rawjson.Object(object); m.Next() {
		member += ","
	}
	return text[:start+1] + member + text[start+1:]
}

// Name is the name of one object of the page.
func (p *Page) Name(i int) string { return p.records[i].Name }
