package fleetlist

import (
	"net/http"

	"kapis.dev/ks-apiserver/pkg/cluster/merge"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/web"
)

// mostSent bounds the bytes of answers that are being written to clients together, and oneSent those of one: a client that reads slowly
// keeps its answer in memory.
const mostSent, oneSent = 128 << 20, 65 << 20

// sent is a list over clusters on its way to a client. It is a web.Responder.
type sent struct {
	*merge.Rendered
	by *httpcache.Responses
}

var _ web.Responder = sent{}

// Respond implements web.Responder.
func (s sent) Respond(w http.ResponseWriter, r *http.Request) {
	if s.Begin(w, r) {
		return
	}
	send(s.by, w, r, &httpcache.Content{More: s.Length(), Write: func(to *httpcache.ChunkWriter) { s.Write(to.WriteText) }})
}

// send sends an answer, where the bytes of all those on their way leave room for it.
func send(by *httpcache.Responses, w http.ResponseWriter, r *http.Request, c *httpcache.Content) {
	f := by.Reserve(r.Context())
	defer f.Release()
	if err := f.Add(c.Length()); err != nil {
		for _, of := range [...]string{"Etag", merge.HeaderMissing} {
			w.Header().Del(of)
		}
		web.WriteError(w, r, err)
		return
	}
	by.Send(w, r, c)
}
