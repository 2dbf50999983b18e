package apiserver

import (
	"net/http"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apimachineryversion "k8s.io/apimachinery/pkg/version"

	"kapis.dev/ks-apiserver/pkg/apiserver/openapi"
	kapisconfig "kapis.dev/ks-apiserver/pkg/kapis/config"
	"kapis.dev/ks-apiserver/pkg/kapis/dynamic"
	"kapis.dev/ks-apiserver/pkg/kapis/operations"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"
	kapisversion "kapis.dev/ks-apiserver/pkg/kapis/version"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/version"
	"kapis.dev/ks-apiserver/pkg/web"
)

// webServices lists the API groups.
func (p *parts) webServices() []*restful.WebService {
	kinds := &dynamic.Handler{Resources: p.resources, Kube: p.kube}
	config := kapisconfig.Handler{Multicluster: kapisconfig.Multicluster{
		ClusterRole: p.cfg.Multicluster.ClusterRole, HostClusterName: p.cfg.Multicluster.HostClusterName, ClusterName: p.cfg.Multicluster.ClusterName,
	}}
	versions := kapisversion.Handler{Kubernetes: func() *apimachineryversion.Info { return p.kubernetes }}

	var all []*restful.WebService
	all = append(all, versions.WebServices()...)
	all = append(all, p.oauth.WebServices()...)
	all = append(all, config.V1alpha2())
	all = append(all, (&resources.V1alpha3{Resources: p.resources}).WebService())
	all = append(all, (&operations.V1alpha2{Kube: p.kube, Authorizer: p.may}).WebService())
	all = append(all, dynamic.WebServices(kinds)...)
	return all
}

// handler is the whole server.
func (p *parts) handler() (http.Handler, error) {
	container := restful.NewContainer()
	container.DoNotRecover(true) // filter.Recover does
	container.ServiceErrorHandler(serviceError)
	services := p.webServices()
	for _, ws := range services {
		container.Add(ws)
	}
	container.Router(newRouter(services))
	documents, err := openapi.New(openapi.Options{
		Config: p.cluster, WebServices: services, Title: "ks-apiserver", Version: version.Get().GitVersion,
	})
	if err != nil {
		return nil, err
	}
	health := health{checks: p.checks}
	metrics := promhttp.HandlerFor(p.metrics, promhttp.HandlerOpts{})
	root := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = canonical(r)
		switch path := r.URL.Path; {
		case path == "/metrics":
			metrics.ServeHTTP(w, r)
		case strings.HasPrefix(path, "/openapi/"):
			documents.ServeHTTP(w, r)
		case isHealth(path):
			health.ServeHTTP(w, r)
		default:
			container.Dispatch(w, r)
		}
	})
	return p.chain(root), nil
}

// serviceError writes what go-restful itself refuses (no such route, method or content type) as a
// Status, in the words of the Kubernetes API.
func serviceError(e restful.ServiceError, req *restful.Request, resp *restful.Response) {
	for name, values := range e.Header {
		resp.Header()[name] = values
	}
	path := req.Request.URL.Path
	err := apierrors.NewGenericServerResponse(e.Code, strings.ToLower(req.Request.Method), schema.GroupResource{}, "", path+": "+e.Message, 0, true)
	web.WriteError(resp.ResponseWriter, req.Request, err)
}

// canonical returns r as routes see it: with the path that was authorized and, for HEAD, as the GET
// that it stands for (RFC 9110, 9.3.2), whose body net/http does not send.
func canonical(r *http.Request) *http.Request {
	info := request.InfoFrom(r.Context())
	if info == nil || info.Path == r.URL.Path && r.URL.RawPath == "" && r.Method != http.MethodHead {
		return r
	}
	u := *r.URL
	u.Path, u.RawPath = info.URLPath()
	again := *r
	again.URL = &u
	if r.Method == http.MethodHead {
		again.Method = http.MethodGet
	}
	return &again
}
