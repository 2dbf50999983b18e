package router

import (
	"fmt"
	"net/http"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// NewContainer returns the container of the routes. They are filtered by the chain: WebServices and routes have no filters of their own.
func NewContainer(services []*restful.WebService) (*restful.Container, error) {
	selector, err := New(services)
	if err != nil {
		return nil, err
	}
	container := restful.NewContainer()
	container.DoNotRecover(true) // filter.Recover does
	container.ServiceErrorHandler(serviceError)
	for _, ws := range services {
		container.Add(ws)
	}
	container.Router(selector)
	return container, nil
}

// Roots returns the root paths of services.
func Roots(services []*restful.WebService) []string {
	out := make([]string, 0, len(services))
	for _, ws := range services {
		out = append(out, ws.RootPath())
	}
	return out
}

// serviceError writes what go-restful itself refuses (no such route, method or content type) as a Status, in the words of the Kubernetes
// API; and what the router refuses, as filter.Authorize does.
func serviceError(e restful.ServiceError, req *restful.Request, resp *restful.Response) {
	ctx := req.Request.Context()
	if info := request.InfoFrom(ctx); e.Code == http.StatusForbidden && info != nil {
		web.WriteError(resp.ResponseWriter, req.Request, authz.Forbidden(request.UserFrom(ctx), info, authz.DecisionFrom(ctx)))
		return
	}
	for name, values := range e.Header {
		resp.Header()[name] = values
	}
	web.WriteError(resp.ResponseWriter, req.Request, refusal(e, req.Request))
}

// refusal returns the Status of what go-restful refuses. For a content type it says what was sent, and what is accepted.
func refusal(e restful.ServiceError, r *http.Request) error {
	path := r.URL.Path
	err := apierrors.NewGenericServerResponse(e.Code, strings.ToLower(r.Method), schema.GroupResource{}, "", path+": "+e.Message, 0, true)
	_, list, _ := strings.Cut(e.Message, availableTypes)
	switch e.Code {
	case http.StatusUnsupportedMediaType:
		sent := "has no Content-Type"
		if t := r.Header.Get("Content-Type"); t != "" {
			sent = "is of Content-Type " + t
		}
		err.ErrStatus.Message = fmt.Sprintf("%s: the body %s; what is taken: %s", path, sent, list)
	case http.StatusNotAcceptable:
		err.ErrStatus.Message = fmt.Sprintf("%s: no answer is of a type that the header Accept names (%s); what there is: %s", path,
			r.Header.Get("Accept"), list)
	default:
		return err
	}
	err.ErrStatus.Details = nil
	return err
}

// availableTypes precedes the media types in errors about them.
const availableTypes = "Available representations: "
