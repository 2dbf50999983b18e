package page

import (
	"crypto/sha256"
	"slices"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Insertion is an annotation that an answer puts into an object: text, at a place of its JSON, which is not copied for that. The zero note
// puts in nothing.
type Insertion struct {
	value, text string
	at          int
}

// Annotated returns the page with an annotation in each of its objects, whose value is what of says of the object's name: an answer that
// tells of an object what another kind knows. An annotation of that key which is stored is not shown; where the value is empty there is
// none.
func (p *Page) Annotated(key string, of func(name string) string) *Page {
	return p.AnnotatedAt(key, func(i int) string { return of(p.Records[i].Name) })
}

// AnnotatedAt is Annotated by the place of an object on the page.
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

// Object is the JSON of one object of the page.
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

// Annotated is the JSON of the object with an annotation in it, as those of a Page have.
func (o *Object) Annotated(key, value string) redaction.Shown { return Annotate(o.JSON, key, value) }

// Annotate sets an annotation of an object, or takes it away where value is empty.
func Annotate(object redaction.Shown, key, value string) redaction.Shown {
	n, shown := insertionOf(object, key, value)
	return n.in(shown)
}

// insertionOf returns the note that sets an annotation, and the object that it goes into: the one that is given, without an annotation of
// that key.
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

// member is what stands for a member in front of the others of the object.
func member(object, text string) string {
	if m := rawjson.Object(object); m.Next() {
		return text + ","
	}
	return text
}

// InsertionAt returns the annotation that the page puts into one of its objects.
func (p *Page) InsertionAt(i int) Insertion {
	if p.Insertions == nil {
		return Insertion{}
	}
	return p.Insertions[i]
}
