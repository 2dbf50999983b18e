// Package operations serves operations.kubesphere.io: running a Job once more.
package operations

import (
	"net/http"
	"time"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	group   = "operations.kubesphere.io"
	version = "v1alpha2"
)

// V1alpha2 serves operations.kubesphere.io/v1alpha2.
type V1alpha2 struct {
	// Kube is kube-apiserver, asked as the caller of a request's context; see proxy.Kube.RoundTrip.
	Kube http.RoundTripper
	// Authorizer decides on each write of an operation, besides the operation itself.
	Authorizer authz.Authorizer
	// Pause is the first pause between two attempts to create a Job, 100 ms where it is zero. The later ones are longer.
	Pause time.Duration
	// RetryFor is how long failed attempts are retried, 15 s where it is zero: well within the time that a server gives its open
	// requests when it stops.
	RetryFor time.Duration
}

// WebService returns the routes of the group.
func (h *V1alpha2) WebService() *restful.WebService {
	ws := new(restful.WebService).Path("/kapis/" + group + "/" + version).Produces(restful.MIME_JSON)
	ws.Route(ws.POST("/namespaces/{namespace}/jobs/{job}").To(web.Handle(web.RefuseDryRun(h.operate))).
		Operation("operateJob").Doc("Run a Job once more: it is deleted and created again under its name, as the caller").
		Param(ws.PathParameter("namespace", "namespace of the Job")).
		Param(ws.PathParameter("job", "name of the Job")).
		Param(ws.QueryParameter("action", "what to do: rerun").Required(true)).
		Param(ws.QueryParameter("resourceVersion", "version of the Job that is meant; any where it is absent")).
		Writes(Done{}))
	return ws
}

// Done is the answer to an operation that is done.
type Done struct {
	Message string `json:"message"`
}

func (h *V1alpha2) operate(r *restful.Request) (any, error) {
	ctx := r.Request.Context()
	info := request.InfoFrom(ctx)
	query := r.Request.URL.Query()
	if action := query.Get("action"); action != "rerun" {
		return nil, status.BadRequestf("the parameter action is %.100q: expected rerun", action)
	}
	x := &rerun{
		kube: jobs{h.Kube, h.Authorizer, r.Request, info.Namespace}, name: info.Name, version: query.Get("resourceVersion"),
		pause: h.Pause, retryFor: h.RetryFor,
	}
	if x.pause <= 0 {
		x.pause = 100 * time.Millisecond
	}
	if x.retryFor <= 0 {
		x.retryFor = 15 * time.Second
	}
	if err := x.run(ctx); err != nil {
		return nil, err
	}
	return Done{"success"}, nil
}
