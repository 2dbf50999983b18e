package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apimachineryversion "k8s.io/apimachinery/pkg/version"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/apiserver/openapi"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/config"
	kapiscluster "kapis.dev/ks-apiserver/pkg/kapis/cluster"
	"kapis.dev/ks-apiserver/pkg/kapis/dynamic"
	kapisiam "kapis.dev/ks-apiserver/pkg/kapis/iam"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/credential"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/loginrecord"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/member"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/removal"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/review"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/roletemplate"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/target"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/user"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/kapis/operations"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/inventory"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/kubeconfig"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/remote"
	"kapis.dev/ks-apiserver/pkg/kapis/static"
	kapisversion "kapis.dev/ks-apiserver/pkg/kapis/version"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/version"
	"kapis.dev/ks-apiserver/pkg/web"
)

// routes makes the WebServices of all API groups, and the handler at the end of the chain.
type routes struct{ *components }

// webServices lists the API groups.
func (p routes) webServices() []*restful.WebService {
	kinds := &dynamic.Handler{Resources: p.resources, Streams: p.streams, Authorizer: p.may, AsCaller: p.caller(), Kube: p.kube,
		Guard: p.guard}
	if p.members != nil {
		kinds.ReducedQuery = p.members.ReducedQuery
	}
	versions := kapisversion.Handler{Kubernetes: func() *apimachineryversion.Info { return p.kubernetes }}

	var all []*restful.WebService
	all = append(all, versions.WebServices()...)
	all = append(all, p.oauth.WebServices()...)
	all = append(all, p.configService(), (&static.Handler{Settings: p.settings, AsCaller: p.caller(), Now: time.Now}).WebService())
	inventory := inventory.New(p.store, p.resources)
	remotes := remote.New(remote.Options{AsCaller: p.caller(), AllowLoopback: p.cfg.Egress.AllowLoopback})
	all = append(all, (&resources.V1alpha3{Resources: p.resources, Streams: p.streams, Authorizer: p.may, AsCaller: p.caller(),
		Inventory: inventory, Remotes: remotes}).WebService())
	all = append(all, (&resources.V1alpha2{Inventory: inventory, Remotes: remotes, Kubeconfigs: p.kubeconfigs()}).WebService())
	all = append(all, (&operations.V1alpha2{Kube: p.kube, Authorizer: p.may}).WebService())
	all = append(all, p.iamServices(kinds)...)
	all = append(all, p.clusterService(kinds))
	all = append(all, p.tenantServices(kinds)...)
	all = append(all, dynamic.WebServices(kinds)...)
	return all
}

// caller returns the client that asks kube-apiserver as the caller of a request.
func (p *components) caller() caller.Client { return caller.Client{May: p.may, Kube: p.kube} }

// iamServices returns the routes of accounts and members, and those of the kinds of their group.
func (p routes) iamServices(kinds *dynamic.Handler) []*restful.WebService {
	a := p.accounts
	target := &target.Users{Index: p.users, Rights: p.rbac, Guard: p.guard}
	bindings := &binding.Service{Rights: p.rbac, Guard: p.guard, Caches: p.store, AsCaller: p.caller()}
	iam := &kapisiam.Handler{
		Users: &user.Handler{Target: target, Bindings: bindings, AsCaller: p.caller(),
			Accounts: a.authenticator.Accounts, Passwords: a.authenticator.Passwords, Now: time.Now},
		Credentials: &credential.Handler{Target: target, Authenticator: a.authenticator, Sessions: p.sessions, APIKeys: a.keys, Factors: a.factors,
			Trust: a.trust, Now: time.Now},
		LoginRecords: &loginrecord.Handler{Target: target, Resources: p.resources},
		Members: &member.Handler{Users: p.users, Resources: p.resources, Bindings: bindings, Rights: p.rbac,
			Removals: &removal.Remover{Users: p.users, Bindings: bindings, Rights: p.rbac, Authorizer: p.may}},
		RoleTemplates: &roletemplate.Handler{Target: target, Rights: p.rbac, Caches: p.store},
		Reviews:       &review.Handler{May: p.may, Grants: p.rbac, Users: p.users, Alias: p.aliases().Of},
	}
	now, older := iam.WebService(), iam.OlderWebService()
	dynamic.Mount(now, wire.Group, wire.Version, kinds)
	dynamic.MountLegacyVersion(older, dynamic.LegacyVersion{
		Group: wire.Group, Version: wire.OlderVersion, Now: wire.Version,
		Cluster: []string{"clusterroles", "clusterrolebindings", "roletemplates"}, Namespaced: []string{"roles", "rolebindings"},
		Gathered: []string{"rolebindings"},
	}, kinds)
	dynamic.Mount(older, wire.Group, wire.OlderVersion, kinds)
	return []*restful.WebService{now, older}
}

// clusterService returns the routes of the labels of clusters, and those of the kinds of their group.
func (p routes) clusterService(kinds *dynamic.Handler) *restful.WebService {
	ws := (&kapiscluster.V1alpha1{Caches: p.store}).WebService()
	gv := clusterv1alpha1.SchemeGroupVersion
	dynamic.Mount(ws, gv.Group, gv.Version, kinds)
	return ws
}

// kubeconfigs returns the handler of users' kubeconfigs.
func (p routes) kubeconfigs() *kubeconfig.Handler {
	issuer, k := p.cfg.Authentication.Issuer.URL, p.cfg.Kubeconfig
	if k.Server == "" && issuer != config.DefaultIssuerURL && strings.HasPrefix(issuer, "https://") {
		k.Server = issuer
	}
	out := &kubeconfig.Handler{Server: k.Server, Authority: k.CertificateAuthority, Issuer: issuer, Client: k.Client,
		IsUser: func(name string) bool { return p.users.ByName(name) != nil }}
	if k.AuthMode == config.KubeconfigClientCertificate {
		out.Certificates = &kubeconfig.Certificates{Namespace: namespace, Own: p.ownSecret, AsCaller: p.caller()}
	}
	return out
}

// ownSecret reads a Secret of this server's namespace by the right to list it; nil if there is none.
func (p routes) ownSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	list, err := p.client.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name",
		name).String()})
	if err != nil {
		return nil, fmt.Errorf("read the Secret %s/%s: %w", namespace, name, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return &list.Items[0], nil
}

// handler returns the handler of the whole server.
func (p routes) handler() (http.Handler, error) {
	services := p.webServices()
	container, err := newRoutes(services)
	if err != nil {
		return nil, err
	}
	documents, err := openapi.New(openapi.Options{
		Config: p.cluster, WebServices: services, Title: "ks-apiserver", Version: version.Get().GitVersion,
	})
	if err != nil {
		return nil, err
	}
	return p.chain(p.answer(container, documents)), nil
}

// answer returns the handler at the end of the chain: the routes, and the few handlers that are no routes.
func (p routes) answer(container *restful.Container, documents http.Handler) http.Handler {
	health := health{checks: readiness(p).checks}
	metrics := promhttp.HandlerFor(p.metrics, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = canonical(r)
		w.Header()["X-Content-Type-Options"] = nosniff // some of these handlers are not ours
		switch path := r.URL.Path; {
		case !authz.DecisionFrom(r.Context()).Allowed():
			container.Dispatch(w, r) // a partial list: only routes restrict their answer
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
}

var nosniff = []string{"nosniff"}

// newRoutes returns the container of the routes. They are filtered by the chain: WebServices and routes have no filters of their own.
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

// serviceError writes what go-restful itself refuses (no such route, method or content type) as a Status, in the words of the Kubernetes
// API; and what the router refuses, as filter.Authorize does.
func serviceError(e restful.ServiceError, req *restful.Request, resp *restful.Response) {
	ctx := req.Request.Context()
	if info := request.InfoFrom(ctx); e.Code == http.StatusForbidden && info != nil {
		web.WriteError(resp.ResponseWriter, req.Request, authz.Denied(request.UserFrom(ctx), info, authz.DecisionFrom(ctx)))
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

// canonical returns r as routes see it: with the path that was authorized and, for HEAD, as the corresponding GET (RFC 9110, 9.3.2),
// whose body net/http does not send.
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
