package oauth

import (
	"net/http"
)

// allowOrigin lets a page of a client without a secret read an answer (WHATWG Fetch, 3.2): one of an origin that is, to the letter,
// that of a registered redirect URI. Cookies are never let through, so nothing that a browser knows by itself is.
func (s *Server) allowOrigin(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Add("Vary", "Origin")
	origins := r.Header["Origin"]
	if len(origins) != 1 || !s.Clients.fromBrowser(origins[0]) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origins[0])
	h.Set("Access-Control-Expose-Headers", "WWW-Authenticate, Retry-After")
	return true
}

// preflight answers the question of a browser whether a page may send a request.
func (s *Server) preflight(methods string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.allowOrigin(w, r) {
			h := w.Header()
			h.Set("Access-Control-Allow-Methods", methods)
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
			h.Set("Access-Control-Max-Age", "600")
		}
		w.WriteHeader(http.StatusNoContent)
	}
}
