package web

import (
	"net/http"

	restful "github.com/emicklei/go-restful/v3"
)

// MetadataPartialList is the key of a route's metadata that, with the value true, says that the handler restricts its list to the partial
// list that the decision in the context allows (authz.PartialList). Any other route refuses a caller who may not see all of a list.
const MetadataPartialList = "part"

// MetadataWatch is the key of a route's metadata that, with the value true, says that the handler answers a watch as one. Any other route
// that lists refuses watches: a right to watch is no right to list.
const MetadataWatch = "watch"

// Handler answers a request with a value, which is written as JSON with status 200 (or by itself, if it is a Responder), or with an
// error, which has its code.
type Handler func(r *restful.Request) (any, error)

// Responder is a value that writes its own answer, status and headers included.
type Responder interface {
	Respond(w http.ResponseWriter, r *http.Request)
}

// Handle returns h as a route's function.
func Handle(h Handler) restful.RouteFunction {
	return func(req *restful.Request, resp *restful.Response) {
		v, err := h(req)
		Write(resp.ResponseWriter, req.Request, v, err)
	}
}

// Namespaced documents the path parameter of a namespace of a route.
func Namespaced(ws *restful.WebService, b *restful.RouteBuilder) *restful.RouteBuilder {
	return b.Param(ws.PathParameter("namespace", "name of the namespace"))
}

// Write writes err as a metav1.Status if it is not nil, and v otherwise.
func Write(w http.ResponseWriter, r *http.Request, v any, err error) {
	if err != nil {
		WriteError(w, r, err)
		return
	}
	if p, ok := v.(Responder); ok {
		p.Respond(w, r)
		return
	}
	WriteJSON(w, r, http.StatusOK, v)
}
