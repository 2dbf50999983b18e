// Package routecheck refuses requests whose route differs from the authorized one.
package routecheck

import (
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Route is what a route does, in the terms in which it was authorized.
type Route struct {
	Verb, Resource string
	// NameParam is the route's parameter with the name, or Name the name itself.
	NameParam, Name string
	Subresource     string
}

// authorized returns an error where a request is for anything but what was authorized: the filters read the path
// once and the router a second time, and both must have read the same.
func (w Route) authorized(r *restful.Request) error {
	info, name := request.InfoFrom(r.Request.Context()), w.Name
	if w.NameParam != "" {
		name = r.PathParameter(w.NameParam)
	}
	if info == nil || !info.IsResource || info.IsKubernetes || info.Workspace != "" || info.Namespace != r.PathParameter("namespace") ||
		info.Resource != w.Resource || info.Name != name || info.Subresource != w.Subresource {
		return status.NoResource()
	}
	if info.Verb != w.Verb {
		return apierrors.NewMethodNotSupported(schema.GroupResource{Group: info.APIGroup, Resource: w.Resource}, info.Verb)
	}
	return nil
}

// Only returns a handler that answers requests for w, and no others.
func Only(w Route, h web.Handler) restful.RouteFunction {
	return web.Handle(func(r *restful.Request) (any, error) {
		if err := w.authorized(r); err != nil {
			return nil, err
		}
		return h(r)
	})
}

// Namespaced adds the path parameter of a namespace to a route.
func Namespaced(ws *restful.WebService, b *restful.RouteBuilder) *restful.RouteBuilder {
	return b.Param(ws.PathParameter("namespace", "name of the namespace"))
}
