package discovery

import (
	"encoding/json"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/web"
)

// Document is public JSON that may be cached for five minutes: metadata and keys.
type Document []byte

// Respond writes the document.
func (p Document) Respond(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=300")
	h.Del("Pragma")
	web.WriteJSON(w, r, http.StatusOK, json.RawMessage(p))
}
