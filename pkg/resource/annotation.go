package resource

import (
	"crypto/sha256"
	"slices"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// insertion is an annotation that an answer puts into an object: text, at a place of its JSON, which is not copied for that. The zero note puts in
// nothing.
type insertion struct {
	value, text string
	at          int
}

// Annotated returns the page with an annotation in each of its objects, whose value is what of says of the object's name: an answer that tells
// of an object what another kind knows. An annotation of that key which is stored is not shown; where the value is empty there is none.
func (p *Page) Annotated(key string, of func(name string) string) *Page {
	return p.annotated(key, func(i int) string { return of(p.records[i].Name) })
}

// annotated is Annotated by the place of an object on the page.
func (p *Page) annotated(key string, of func(i int) string) *Page {
	out := *p
	out.body, out.records, out.key, out.insertions = nil, slices.Clone(p.records), key, make([]insertion, len(p.records))
	hash := sha256.New()
	hash.Write(p.digest[:])
	text := lru.AppendPart(nil, key)
	for i, r := range p.records {
		n, shown := insertionOf(r.JSON, key, of(i))
		if shown.Len() != r.JSON.Len() {
			out.records[i] = &index.Record{Ref: r.Ref, JSON: shown, UID: r.UID, ResourceVersion: r.ResourceVersion}
		}
		out.insertions[i] = n
		out.bytes += int64(shown.Len() - r.JSON.Len() + len(n.text))
		text = lru.AppendPart(text, n.value)
	}
	hash.Write(text)
	hash.Sum(out.digest[:0])
	return &out
}

// object is the JSON of one object of the page.
func (p *Page) object(i int) redaction.Shown {
	text := p.records[i].JSON
	if p.insertions == nil {
		return text
	}
	return p.insertions[i].in(text)
}

func (n *insertion) in(object redaction.Shown) redaction.Shown {
	if n.text == "" {
		return object
	}
	return object.Replace(n.at, n.at, n.text)
}

// Annotated is the JSON of the object with an annotation in it, as those of a Page have.
func (o *Object) Annotated(key, value string) redaction.Shown { return annotate(o.JSON, key, value) }

// annotate sets an annotation of an object, or takes it away where value is empty.
func annotate(object redaction.Shown, key, value string) redaction.Shown {
	n, shown := insertionOf(object, key, value)
	return n.in(shown)
}

// insertionOf returns the note that sets an annotation, and the object that it goes into: the one that is given, without an annotation of that key.
func insertionOf(shown redaction.Shown, key, value string) (insertion, redaction.Shown) {
	if rawjson.Get(shown.String(), "metadata", "annotations", key) != "" {
		cut, err := shown.Without(rawjson.Cut{"metadata": {"annotations": {key: nil}}})
		if err != nil {
			return insertion{}, shown // it never was an object
		}
		shown = cut
	}
	if value == "" {
		return insertion{}, shown
	}
	n, object := insertion{value: value}, shown.String()
	if start, end, ok := rawjson.Span(object, "metadata", "annotations"); ok && object[start] == '{' {
		n.at, n.text = start+1, member(object[start:end], rawjson.String(key)+":"+rawjson.String(value))
	} else if start, end, ok := rawjson.Span(object, "metadata"); ok && object[start] == '{' {
		n.at, n.text = start+1, member(object[start:end], `"annotations":{`+rawjson.String(key)+":"+rawjson.String(value)+"}")
	}
	return n, shown
}

// member is what stands for a member in front of the others of the object.
func member(object, text string) string {
	if m := rawjson.Object(object); m.Next() {
		return text + ","
	}
	return text
}

// Name is the name of one object of the page.
func (p *Page) Name(i int) string { return p.records[i].Name }
