package page

import (
	"crypto/sha256"
	"slices"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Insertion is the annotations that an answer inserts into an object: a text and its offset in the JSON, which is not copied
// for that. The zero Insertion inserts nothing.
type Insertion struct {
	text string
	at   int
}

// Annotated returns the page with an annotation in each of its objects, whose value of returns for the object's name: it
// shows what another kind knows of the object. A stored annotation of that key is not shown; where the value is empty there
// is none.
func (p *Page) Annotated(key string, of func(name string) string) *Page {
	return p.AnnotatedAt([]string{key}, func(i int) []string { return []string{of(p.Records[i].Name)} })
}

// AnnotatedAt is Annotated with several annotations, by the index of an object on the page. of returns the value of each key, or nil for
// none at all.
func (p *Page) AnnotatedAt(keys []string, of func(i int) []string) *Page {
	values := make([][]string, len(p.Records))
	var text []byte
	for _, key := range keys {
		text = lru.AppendPart(text, key)
	}
	for i := range p.Records {
		values[i] = of(i)
		for at := range keys {
			text = lru.AppendPart(text, valueAt(values[i], at))
		}
	}
	return p.with(text, func(i int, object redaction.Shown) (Insertion, redaction.Shown) {
		return insertionOf(object, keys, values[i])
	})
}

// with returns the page with what insert returns for each of its objects: an insertion, and what it goes into. text identifies all of it.
// A reduced page stays as it is.
func (p *Page) with(text []byte, insert func(i int, object redaction.Shown) (Insertion, redaction.Shown)) *Page {
	if p.reduced {
		return p
	}
	out := *p
	out.Body, out.Records, out.Insertions = nil, slices.Clone(p.Records), make([]Insertion, len(p.Records))
	out.insert = func(q *Page) *Page { return q.with(text, insert) }
	for i, r := range p.Records {
		n, shown := insert(i, r.JSON)
		if shown.Len() != r.JSON.Len() {
			out.Records[i] = &index.Record{Ref: r.Ref, JSON: shown, UID: r.UID, ResourceVersion: r.ResourceVersion}
		}
		out.Insertions[i] = n
		out.Bytes += int64(shown.Len() - r.JSON.Len() + len(n.text))
	}
	hash := sha256.New()
	hash.Write(p.digest[:])
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
func (o *Object) Annotated(key, value string) redaction.Shown {
	return Annotate(o.JSON, []string{key}, []string{value})
}

// Annotate sets annotations of an object, and removes those whose value is empty, or all of them where values is nil.
func Annotate(object redaction.Shown, keys, values []string) redaction.Shown {
	n, shown := insertionOf(object, keys, values)
	return n.in(shown)
}

// valueAt returns the value of a key, "" where there are none.
func valueAt(values []string, at int) string {
	if values == nil {
		return ""
	}
	return values[at]
}

// insertionOf returns the insertion that sets annotations, and the object that it goes into: the given one, without annotations
// of these keys.
func insertionOf(shown redaction.Shown, keys, values []string) (Insertion, redaction.Shown) {
	stored := rawjson.Get(shown.String(), "metadata", "annotations")
	cuts := rawjson.Cut{}
	var set []byte
	for i, key := range keys {
		if rawjson.Get(stored, key) != "" {
			cuts[key] = nil
		}
		if value := valueAt(values, i); value != "" {
			if set != nil {
				set = append(set, ',')
			}
			set = rawjson.AppendString(append(rawjson.AppendString(set, key), ':'), value)
		}
	}
	if len(cuts) > 0 {
		cut, err := shown.Without(rawjson.Cut{"metadata": {"annotations": cuts}})
		if err != nil {
			return Insertion{}, shown // it never was an object
		}
		shown = cut
	}
	if set == nil {
		return Insertion{}, shown
	}
	n, object := Insertion{}, shown.String()
	if start, end, ok := rawjson.Span(object, "metadata", "annotations"); ok && object[start] == '{' {
		n.at, n.text = start+1, member(object[start:end], string(set))
	} else if start, end, ok := rawjson.Span(object, "metadata"); ok && object[start] == '{' {
		n.at, n.text = start+1, member(object[start:end], `"annotations":{`+string(set)+"}")
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

// InsertionAt returns the annotations that the page inserts into one of its objects.
func (p *Page) InsertionAt(i int) Insertion {
	if p.Insertions == nil {
		return Insertion{}
	}
	return p.Insertions[i]
}
