package apiserver

import (
	"net/http"
	"strings"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apimachineryversion "k8s.io/apimachinery/pkg/version"

	"kapis.dev/ks-apiserver/pkg/apiserver/openapi"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	kapisconfig "kapis.dev/ks-apiserver/pkg/kapis/config"
	"kapis.dev/ks-apiserver/pkg/kapis/dynamic"
	kapisiam "kapis.dev/ks-apiserver/pkg/kapis/iam"
	"kapis.dev/ks-apiserver/pkg/kapis/operations"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"
	kapisversion "kapis.dev/ks-apiserver/pkg/kapis/version"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/version"
	"kapis.dev/ks-apiserver/pkg/web"
)

// webServices lists the API groups.
func (p *parts) webServices() []*restful.WebService {
	kinds := &dynamic.Handler{Resources: p.resources, Streams: p.streams, AsCaller: p.caller(), Kube: p.kube}
	config := kapisconfig.Handler{Multicluster: kapisconfig.Multicluster{
		ClusterRole: p.cfg.Multicluster.ClusterRole, HostClusterName: p.cfg.Multicluster.HostClusterName, ClusterName: p.cfg.Multicluster.ClusterName,
	}, IdentityProviders: &kapisconfig.IdentityProviders{Directory: p.directory, Accounts: p.people}}
	versions := kapisversion.Handler{Kubernetes: func() *apimachineryversion.Info { return p.kubernetes }}

	var all []*restful.WebService
	all = append(all, versions.WebServices()...)
	all = append(all, p.oauth.WebServices()...)
	all = append(all, config.V1alpha2())
	inventory := resources.NewInventory(p.store, p.resources)
	remotes := resources.NewRemotes(resources.RemoteOptions{AsCaller: p.caller(), AllowLoopback: p.cfg.Egress.AllowLoopback})
	all = append(all, (&resources.V1alpha3{Resources: p.resources, Streams: p.streams, Authorizer: p.may, AsCaller: p.caller(), Inventory: inventory, Remotes: remotes}).WebService())
	all = append(all, (&resources.V1alpha2{Inventory: inventory, Remotes: remotes, Kubeconfigs: p.kubeconfigs()}).WebService())
	all = append(all, (&operations.V1alpha2{Kube: p.kube, Authorizer: p.may}).WebService())
	all = append(all, p.iamService(kinds))
	all = append(all, dynamic.WebServices(kinds)...)
	return all
}

// caller asks kube-apiserver as the caller of a request.
func (p *parts) caller() caller.Client { return caller.Client{May: p.may, Kube: p.kube} }

// iamService has the routes of accounts, and beside them those of the kinds of their group.
func (p *parts) iamService(kinds *dynamic.Handler) *restful.WebService {
	a := p.accounts
	ws := (&kapisiam.V1beta1{
		Users: p.users, Entrance: a.entrance, Accounts: a.entrance.Accounts, Sessions: p.sessions, APIKeys: a.keys, Factors: a.factors,
		Resources: p.resources, Kube: p.kube, Authorizer: p.may, Trust: a.trust, Now: time.Now,
	}).WebService()
	dynamic.Mount(ws, kapisiam.Group, kapisiam.Version, kinds)
	return ws
}

// kubeconfigs is what people's kubectl is told.
func (p *parts) kubeconfigs() *resources.Kubeconfigs {
	issuer, k := p.cfg.Authentication.Issuer.URL, p.cfg.Kubeconfig
	if k.Server == "" && strings.HasPrefix(issuer, "https://") {
		k.Server = issuer
	}
	return &resources.Kubeconfigs{Server: k.Server, Authority: k.CertificateAuthority, Issuer: issuer, Client: k.Client,
		IsUser: func(name string) bool { return p.users.ByName(name) != nil }}
}

// handler is the whole server.
func (p *parts) handler() (http.Handler, error) {
	services := p.webServices()
	routes, err := newRoutes(services)
	if err != nil {
		return nil, err
	}
	documents, err := openapi.New(openapi.Options{
		Config: p.cluster, WebServices: services, Title: "ks-apiserver", Version: version.Get().GitVersion,
	})
	if err != nil {
		return nil, err
	}
	return p.chain(p.answer(routes, documents)), nil
}

// answer is what stands at the end of the chain: the routes, and the few handlers that are none.
func (p *parts) answer(routes *restful.Container, documents http.Handler) http.Handler {
	health := health{checks: p.checks}
	metrics := promhttp.HandlerFor(p.metrics, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = canonical(r)
		switch path := r.URL.Path; {
		case !authz.DecisionFrom(r.Context()).Allowed:
			routes.Dispatch(w, r) // a part of a list: only routes know of parts
		case path == "/metrics":
			metrics.ServeHTTP(w, r)
		case strings.HasPrefix(path, "/openapi/"):
			documents.ServeHTTP(w, r)
		case isHealth(path):
			health.ServeHTTP(w, r)
		default:
			routes.Dispatch(w, r)
		}
	})
}

// newRoutes makes the container of the routes. Their steps are those of the chain: WebServices and
// routes have no filters of their own.
func newRoutes(services []*restful.WebService) (*restful.Container, error) {
	router, err := newRouter(services)
	if err != nil {
		return nil, err
	}
	container := restful.NewContainer()
	container.DoNotRecover(true) // filter.Recover does
	container.ServiceErrorHandler(serviceError)
	for _, ws := range services {
		container.Add(ws)
	}
	container.Router(router)
	return container, nil
}

// serviceError writes what go-restful itself refuses (no such route, method or content type) as a
// Status, in the words of the Kubernetes API; and what the router refuses, as filter.Authorize does.
func serviceError(e restful.ServiceError, req *restful.Request, resp *restful.Response) {
	ctx := req.Request.Context()
	if info := request.InfoFrom(ctx); e.Code == http.StatusForbidden && info != nil {
		web.WriteError(resp.ResponseWriter, req.Request, authz.Denied(request.UserFrom(ctx), info, authz.DecisionFrom(ctx)))
		return
	}
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
		again = *again.WithContext(web.AsHead(r.Context()))
		again.Method = http.MethodGet
	}
	return &again
}
