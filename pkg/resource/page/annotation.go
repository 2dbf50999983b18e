package page

import (
	"crypto/sha256"
	"slices"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Insertion is an annotation that an answer inserts into an object: a text and its offset in the JSON, which is not copied
// for that. The zero Insertion inserts nothing.
type Insertion struct {
	value, text string
	at          int
}

// Annotated returns the page with an annotation in each of its objects, whose value of returns for the object's name: it
// shows what another kind knows of the object. A stored annotation of that key is not shown; where the value is empty there
// is none.
func (p *Page) Annotated(key string, of func(name string) string) *Page {
	return p.AnnotatedAt(key, func(i int) string { return of(p.Records[i].Name) })
}

// AnnotatedAt is Annotated by the index of an object on the page.
func (p *Page) AnnotatedAt(key string, of func(i int) string) *Page {
	out := *p
	out.Body, out.Records, out.key, out.Insertions = nil, slices.Clone(p.Records), key, make([]Insertion, len(p.Records))
	hash := sha256.New()
	hash.Write(p.digest[:])
	text := lru.AppendPart(nil, key)
	for i, r := range p.Records {
		n, shown := insertionOf(r.JSON, key, of(i))
		if shown.Len() != r.JSON.Len() {
			out.Records[i] = &index.Record{Ref: r.Ref, JSON: shown, UID: r.UID, ResourceVersion: r.ResourceVersion}
		}
		out.Insertions[i] = n
		out.Bytes += int64(shown.Len() - r.JSON.Len() + len(n.text))
		text = lru.AppendPart(text, n.value)
	}
	hash.Write(text)
	hash.Sum(out.digest[:0])
	return &out
}

// Object returns the JSON of one object of the page.
func (p *Page) Object(i int) redaction.Shown {
	text := p.Records[i].JSON
	if p.Insertions == nil {
		return text
	}
	return p.Insertions[i].in(text)
}

func (n *Insertion) in(object redaction.Shown) redaction.Shown {
	if n.text == "" {
		return object
	}
	return object.Replace(n.at, n.at, n.text)
}

// Annotated returns the JSON of the object with an annotation in it, as those of a Page have.
func (o *Object) Annotated(key, value string) redaction.Shown { return Annotate(o.JSON, key, value) }

// Annotate sets an annotation of an object, or removes it where value is empty.
func Annotate(object redaction.Shown, key, value string) redaction.Shown {
	n, shown := insertionOf(object, key, value)
	return n.in(shown)
}

// insertionOf returns the insertion that sets an annotation, and the object that it goes into: the given one, without an
// annotation of that key.
func insertionOf(shown redaction.Shown, key, value string) (Insertion, redaction.Shown) {
	if rawjson.Get(shown.String(), "metadata", "annotations", key) != "" {
		cut, err := shown.Without(rawjson.Cut{"metadata": {"annotations": {key: nil}}})
		if err != nil {
			return Insertion{}, shown // it never was an object
		}
		shown = cut
	}
	if value == "" {
		return Insertion{}, shown
	}
	n, object := Insertion{value: value}, shown.String()
	if start, end, ok := rawjson.Span(object, "metadata", "annotations"); ok && object[start] == '{' {
		n.at, n.text = start+1, member(object[start:end], rawjson.String(key)+":"+rawjson.String(value))
	} else if start, end, ok := rawjson.Span(object, "metadata"); ok && object[start] == '{' {
		n.at, n.text = start+1, member(object[start:end], `"annotations":{`+rawjson.String(key)+":"+rawjson.String(value)+"}")
	}
	return n, shown
}

// member returns the text of a member before the others of the object.
func member(object, text string) string {
	if m := rawjson.Object(object); m.Next() {
		return text + ","
	}
	return text
}

// InsertionAt returns the annotation that the page inserts into one of its objects.
func (p *Page) InsertionAt(i int) Insertion {
	if p.Insertions == nil {
		return Insertion{}
	}
	return p.Insertions[i]
}
