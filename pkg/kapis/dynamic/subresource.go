package dynamic

import (
	"net/http"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/status"

	restful "github.com/emicklei/go-restful/v3"
)

// isTunnel reports whether a sub-resource is a connection to a workload and not an object. Those have one route, /api, so that they
// are authorized in one place.
func isTunnel(subresource string) bool {
	switch subresource {
	case "attach", "exec", "portforward", "proxy":
		return true
	}
	return false
}

// subresource answers a GET of a sub-resource. Caches hold none: the request and the answer are passed through.
func (h *Handler) subresource(r *restful.Request) (any, error) {
	o, err := h.order(r)
	if err != nil {
		return nil, err
	}
	if isTunnel(o.info.Subresource) {
		return nil, status.NoResource()
	}
	if o.workspace != "" {
		if _, err := o.Resources.Get(r.Request.Context(), o.kind, plan.Scope{Workspace: o.workspace}, o.info.Name); err != nil {
			return nil, err
		}
	}
	return passed{o}, nil
}

// passed is the answer of kube-apiserver to the caller's own request. It is a web.Responder.
type passed struct{ o *writeRequest }

// Respond implements web.Responder.
func (p passed) Respond(w http.ResponseWriter, r *http.Request) {
	// A long request is authorized again by this info: by all that was authorized, so it is changed only where it says which server
	// answers.
	info := *p.o.info
	info.IsKubernetes, info.Path = true, p.o.path
	p.o.Kube.ServeHTTP(w, r.WithContext(request.WithInfo(r.Context(), &info)))
}
