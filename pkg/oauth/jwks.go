package oauth

import (
	"encoding/json"
	"net/http"

	"github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/web"
)

// keys answers with the public keys. They may be kept for a while: a new key is published before
// anything is signed with it.
func (s *Server) keys(*restful.Request) (any, error) {
	return cacheableJSON(s.Keys.KeySet().JWKS()), nil
}

// cacheableJSON is JSON that everyone may see and keep for a few minutes.
type cacheableJSON []byte

// Respond writes the document.
func (p cacheableJSON) Respond(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=300")
	h.Del("Pragma")
	web.WriteJSON(w, r, http.StatusOK, json.RawMessage(p))
}
