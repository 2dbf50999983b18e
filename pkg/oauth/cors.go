package oauth

import (
	"net/http"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
)

// preflights adds the route for CORS preflight requests of a path.
func (s *Server) preflights(ws *restful.WebService, path, operation string, methods []string) {
	h := s.preflight(strings.Join(methods, ", "))
	ws.Route(ws.Method(http.MethodOptions).Path(path).To(func(req *restful.Request, resp *restful.Response) {
		h(resp.ResponseWriter, req.Request)
	}).Doc("whether a page may call it (CORS)").Operation(operation + "-options"))
}

// allowOrigin sets the headers with which pages of public clients may read a response (WHATWG Fetch, 3.2), and reports whether the
// request's origin is exactly that of a registered redirect URI. Credentials of the browser are never allowed.
func (s *Server) allowOrigin(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Add("Vary", "Origin")
	origins := r.Header["Origin"]
	if len(origins) != 1 || !s.Clients.AllowsOrigin(origins[0]) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origins[0])
	h.Set("Access-Control-Expose-Headers", "WWW-Authenticate, Retry-After")
	return true
}

// preflight returns the handler of CORS preflight requests.
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
