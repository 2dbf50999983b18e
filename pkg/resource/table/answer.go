package table

import (
	"net/http"
	"strconv"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Answer is a page or an object as a Table. It is a web.Responder. Its ages change with the time, so that it has no entity tag.
type Answer struct {
	printer   *Printer
	responses *httpcache.Responses
	head      string // members after the metadata's resource version
	version   string
	page      *page.Page // nil for one object
	object    *page.Object
}

// Page returns a page as a Table, with the members totalItems and facets besides those of a Table. next is what continue says, empty on
// the last page, and where pages are asked for by number.
func (p *Printer) Page(of *page.Page, next string) *Answer {
	var head []byte
	if next != "" {
		head = rawjson.AppendString(append(head, `,"continue":`...), next)
	}
	if of.Remaining > 0 {
		head = strconv.AppendInt(append(head, `,"remainingItemCount":`...), int64(of.Remaining), 10)
	}
	head = strconv.AppendInt(append(head, `},"totalItems":`...), int64(of.Total), 10)
	head = append(head, of.Facets...)
	return &Answer{printer: p, responses: of.Cache.Responses(), head: string(head), version: rawjson.String(of.ResourceVersion), page: of}
}

// Object returns an object as a Table.
func (p *Printer) Object(of *page.Object) *Answer {
	version := value(of.JSON.String()).at("metadata", "resourceVersion")
	if version == "" {
		version = `""`
	}
	return &Answer{printer: p, responses: of.Responses(), head: "}", version: string(version), object: of}
}

// Respond implements web.Responder.
func (a *Answer) Respond(w http.ResponseWriter, r *http.Request) {
	f := a.responses.Reserve(r.Context())
	defer f.Release()
	text, err := a.append(make([]byte, 0, 4<<10), &f)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	h := w.Header()
	if a.page != nil && a.page.Partial {
		h.Set(page.HeaderPartial, "true")
	}
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Vary", "Accept, Accept-Encoding, Authorization")
	c := httpcache.Content{Items: text}
	if len(text) > httpcache.MinGzip && httpcache.AcceptsGzip(r.Header) {
		c = a.responses.Compress(c)
	}
	a.responses.Send(w, r, &c)
}

// append appends the Table, and counts its bytes.
func (a *Answer) append(dst []byte, f *httpcache.Reservation) ([]byte, error) {
	p, counted := a.printer, 0
	dst = append(append(dst, `{"kind":"Table","apiVersion":"`+apiVersion+`","metadata":{"resourceVersion":`...), a.version...)
	dst = append(append(dst, a.head...), `,"columnDefinitions":`...)
	dst = append(append(dst, p.Columns()...), `,"rows":[`...)
	if a.object != nil {
		dst = p.appendRow(dst, a.object.JSON.String(), a.object.JSON.String())
	}
	var room []byte
	for i := range a.rows() {
		if i > 0 {
			dst = append(dst, ',')
		}
		object := a.page.Object(i).String()
		shown := object
		if p.form.Object == Whole && a.page.Projection != nil {
			room = a.page.Projection.Append(room[:0], object)
			shown = string(room)
		}
		p.of(a.page.Records[i])
		dst = p.appendRow(dst, object, shown)
		if len(dst)-counted > httpcache.ChunkSize {
			if err := f.Add(int64(len(dst) - counted)); err != nil {
				return nil, err
			}
			counted = len(dst)
		}
	}
	dst = append(dst, "]}"...)
	return dst, f.Add(int64(len(dst) - counted))
}

func (a *Answer) rows() int {
	if a.page == nil {
		return 0
	}
	return a.page.Len()
}
