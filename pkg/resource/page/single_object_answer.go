package page

import (
	"net/http"

	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Object is one object. It is a web.Responder.
type Object struct {
	JSON redaction.Shown

	record    *index.Record
	responses *httpcache.Responses
	inserted  string // by WithAnnotation: part of the entity tag
}

// Respond implements web.Responder.
func (o *Object) Respond(w http.ResponseWriter, r *http.Request) {
	d, bytes := httpcache.DigestOf([]*index.Record{o.record})
	tag := httpcache.Tag("object", string(d[:]))
	if o.inserted != "" {
		tag, bytes = httpcache.Tag("object", string(d[:]), o.inserted), int64(o.JSON.Len())
	}
	if httpcache.NotModified(w, r, tag) {
		return
	}
	f := o.responses.Reserve(r.Context())
	defer f.Release()
	if err := f.Add(bytes); err != nil {
		web.WriteError(w, r, err)
		return
	}
	c := httpcache.Content{Write: func(to *httpcache.ChunkWriter) { to.WriteText(o.JSON.String()) }, More: bytes}
	if bytes > httpcache.MinGzip && httpcache.AcceptsGzip(r.Header) {
		c = o.responses.Compress(c)
	}
	httpcache.SetHeaders(w.Header(), tag)
	o.responses.Send(w, r, &c)
}

// WithAnnotation returns the answer with an annotation in the object, or without that annotation where value is empty.
func (o *Object) WithAnnotation(key, value string) *Object {
	out := *o
	out.JSON, out.inserted = o.Annotated(key, value), string(lru.AppendPart(lru.AppendPart([]byte(o.inserted), key), value))
	return &out
}

// Responses returns the writer that all answers share.
func (o *Object) Responses() *httpcache.Responses { return o.responses }

// Object returns the answer of one object.
func (c *Cache) Object(r *index.Record) *Object {
	return &Object{JSON: r.JSON, record: r, responses: c.responses}
}
