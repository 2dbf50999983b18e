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
// to merge the page with those of other clusters.
func (p *Page) Rows() web.Responder { return rows{p} }

type rows struct{ *Page }

// Respond implements web.Responder.
func (p rows) Respond(w http.ResponseWriter, r *http.Request) {
	if p.Partial {
		w.Header()[HeaderPartial] = partial
	}
	tag := httpcache.Tag("rows", string(p.digest[:]), strconv.Itoa(p.Total), strconv.Itoa(p.Start), p.Facets)
	if httpcache.NotModified(w, r, tag) {
		return
	}
	f := p.Cache.responses.Reserve()
	defer f.Release()
	c := httpcache.Content{Before: p.head(), Items: p.text()}
	if err := f.Add(c.Length()); err != nil {
		web.WriteError(w, r, err)
		return
	}
	httpcache.SetHeaders(w.Header(), tag)
	p.Cache.responses.Send(w, r, &c)
}

func (p rows) head() []byte {
	head := strconv.AppendInt(append(make([]byte, 0, 128+len(p.Facets)), `{"totalItems":`...), int64(p.Total), 10)
	head = strconv.AppendInt(append(head, `,"start":`...), int64(p.Start), 10)
	head = rawjson.AppendString(append(head, `,"metadata":{"resourceVersion":`...), p.ResourceVersion)
	return append(append(append(head, '}'), p.Facets...), `,"rows":[`...)
}

func (p rows) text() []byte {
	text := make([]byte, 0, 160*len(p.Records)+len(tail))
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
	return append(text, tail...)
}
