package resource

import (
	"net/http"

	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Object is one object. It is a web.Responder.
type Object struct {
	// JSON is the object, ResourceVersion its version.
	JSON            redaction.Shown
	ResourceVersion string

	record  *index.Record
	service *Service
}

// Respond implements web.Responder.
func (o *Object) Respond(w http.ResponseWriter, r *http.Request) {
	d, bytes := digestOf([]*index.Record{o.record})
	tag := tagOf("object", string(d[:]))
	if unmodified(w, r, tag) {
		return
	}
	f := reservation{limit: &o.service.inFlight}
	defer f.release()
	if err := f.add(bytes); err != nil {
		web.WriteError(w, r, err)
		return
	}
	c := content{write: func(to *chunkWriter) { to.write(o.JSON.String()) }, more: bytes}
	if bytes > minGzip && acceptsGzip(r.Header) {
		c = o.service.compress(c)
	}
	conditional(w.Header(), tag)
	o.service.send(w, r, &c)
}
