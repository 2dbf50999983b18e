package resources

import (
	"fmt"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// what is what a route does, in the words in which it was authorized.
type what struct {
	verb, resource string
	// nameParam is the route's parameter that is the name, or name the name itself.
	nameParam, name string
	subresource     string
}

// authorized refuses to answer a request for anything but what was authorized: the filters read the path
// once and the router a second time, and both must have read the same.
func (w what) authorized(r *restful.Request) error {
	info, name := request.InfoFrom(r.Request.Context()), w.name
	if w.nameParam != "" {
		name = r.PathParameter(w.nameParam)
	}
	if info == nil || !info.IsResource || info.IsKubernetes || info.Workspace != "" || info.Namespace != r.PathParameter("namespace") ||
		info.Resource != w.resource || info.Name != name || info.Subresource != w.subresource {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
			Message: "there is no resource at this path",
		}}
	}
	if info.Verb != w.verb {
		return apierrors.NewMethodNotSupported(schema.GroupResource{Group: info.APIGroup, Resource: w.resource}, info.Verb)
	}
	return nil
}

// only makes a handler answer what w says, and nothing else.
func only(w what, h web.Handler) restful.RouteFunction {
	return web.Handle(func(r *restful.Request) (any, error) {
		if err := w.authorized(r); err != nil {
			return nil, err
		}
		return h(r)
	})
}

// counts are counts that may lack some kinds.
type counts interface{ Lacks() []string }

// whole answers with counts.
func whole[C counts](c C, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return partial{c}, nil
}

// partial answers with counts, and warns of what they lack in headers, as kube-apiserver warns
// (RFC 7234, 5.5).
type partial struct{ counts }

// Respond implements web.Responder.
func (p partial) Respond(w http.ResponseWriter, r *http.Request) {
	for _, kind := range p.Lacks() {
		w.Header().Add("Warning", fmt.Sprintf(`299 - "%s are not counted: they are not known yet"`, kind))
	}
	web.WriteJSON(w, r, http.StatusOK, p.counts)
}

// nothing is an answer without a body.
type nothing struct{}

// Respond implements web.Responder.
func (nothing) Respond(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
}

// message is how clients know that something was done.
type message struct {
	Message string `json:"message"`
}
