package page

import (
	"encoding/base64"
	"net/http"
	"strconv"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Rows returns the answer {"totalItems":N,"start":N,"metadata":{...},"rows":[[key,namespace,name,uid,resourceVersion],...]}: what is needed
// to merge the page with those of other clusters. Objects are the first objects of the page, which follow as "items"; nil for none.
func (p *Page) Rows(objects *Page) web.Responder {
	r := rows{Page: p}
	if objects != nil {
		r.items = objects.Items()
	}
	return r
}

type rows struct {
	*Page
	items *Answer
}

// Respond implements web.Responder.
func (p rows) Respond(w http.ResponseWriter, r *http.Request) {
	if p.Partial {
		w.Header()[HeaderPartial] = partial
	}
	parts := []string{"rows", string(p.digest[:]), strconv.Itoa(p.Total), strconv.Itoa(p.Start), p.Facets}
	if p.items != nil {
		parts = append(parts, p.items.tag())
	}
	tag := httpcache.Tag(parts...)
	if httpcache.NotModified(w, r, tag) {
		return
	}
	f := p.Cache.responses.Reserve(r.Context())
	defer f.Release()
	text, err := p.text(f.Add)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	httpcache.SetHeaders(w.Header(), tag)
	p.Cache.responses.Send(w, r, &httpcache.Content{Items: text}) // in one piece, which is one frame on a link
}

// head returns the beginning of the answer, with room for the rows.
func (p rows) head() []byte {
	head := append(make([]byte, 0, 128+len(p.Facets)+160*len(p.Records)+len(tail)), `{"totalItems":`...)
	head = strconv.AppendInt(head, int64(p.Total), 10)
	head = strconv.AppendInt(append(head, `,"start":`...), int64(p.Start), 10)
	head = rawjson.AppendString(append(head, `,"metadata":{"resourceVersion":`...), p.ResourceVersion)
	return append(append(append(head, '}'), p.Facets...), `,"rows":[`...)
}

// text returns the answer. add is told how long it becomes, and may refuse.
func (p rows) text(add func(n int64) error) ([]byte, error) {
	text := p.head()
	for i, r := range p.Records {
		if i > 0 {
			text = append(text, ',')
		}
		text = base64.RawStdEncoding.AppendEncode(append(text, `["`...), []byte(p.Keys[i]))
		text = append(text, '"')
		for _, s := range [...]string{r.Namespace, r.Name, r.UID, r.ResourceVersion} {
			text = rawjson.AppendString(append(text, ','), s)
		}
		text = append(text, ']')
	}
	if p.items == nil {
		text = append(text, tail...)
		return text, add(int64(len(text)))
	}
	text = append(text, `],"items":[`...)
	if err := add(int64(len(text))); err != nil {
		return nil, err
	}
	return p.items.page.appendItems(text, add)
}
