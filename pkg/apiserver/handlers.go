package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apimachineryversion "k8s.io/apimachinery/pkg/version"

	"kapis.dev/ks-apiserver/pkg/apiserver/backends"
	"kapis.dev/ks-apiserver/pkg/apiserver/fleetrelease"
	"kapis.dev/ks-apiserver/pkg/apiserver/health"
	"kapis.dev/ks-apiserver/pkg/apiserver/openapi"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/filter"
	"kapis.dev/ks-apiserver/pkg/kapis/application"
	kapiscluster "kapis.dev/ks-apiserver/pkg/kapis/cluster"
	"kapis.dev/ks-apiserver/pkg/kapis/discovery"
	"kapis.dev/ks-apiserver/pkg/kapis/dynamic"
	"kapis.dev/ks-apiserver/pkg/kapis/dynamic/read"
	kapisgateway "kapis.dev/ks-apiserver/pkg/kapis/gateway"
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
	"kapis.dev/ks-apiserver/pkg/kapis/operations"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/inventory"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/remote"
	"kapis.dev/ks-apiserver/pkg/kapis/retired"
	"kapis.dev/ks-apiserver/pkg/kapis/static"
	kapisterminal "kapis.dev/ks-apiserver/pkg/kapis/terminal"
	kapisversion "kapis.dev/ks-apiserver/pkg/kapis/version"
	"kapis.dev/ks-apiserver/pkg/kapis/workloadtemplate"
	"kapis.dev/ks-apiserver/pkg/proxy/backend"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/router"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/terminal"
	"kapis.dev/ks-apiserver/pkg/terminal/kubectlshell"
	"kapis.dev/ks-apiserver/pkg/terminal/nodeshell"
	"kapis.dev/ks-apiserver/pkg/version"
	"kapis.dev/ks-apiserver/pkg/web"
)

// routes makes the WebServices of all API groups, and the handler at the end of the chain.
type routes struct{ *components }

// webServices lists the API groups.
func (p routes) webServices() []*restful.WebService {
	kinds := &dynamic.Handler{
		Handler: &read.Handler{Resources: p.resources, Streams: p.streams, Authorizer: p.may, AsCaller: p.caller()},
		Kube:    p.kube, Guard: p.guard,
	}
	if p.members != nil {
		kinds.ReducedQuery = p.members.ReducedQuery
	}
	versions := kapisversion.Handler{Kubernetes: func() *apimachineryversion.Info { return p.kubernetes }}

	all := append(versions.WebServices(), p.oauth.WebServices()...)
	all = append(all, p.configService(), (&static.Handler{Settings: p.settings, AsCaller: p.caller(), Now: time.Now}).WebService())
	inventory := inventory.New(p.store, p.resources)
	remotes := remote.New(remote.Options{AsCaller: p.caller(), AllowLoopback: p.cfg.Egress.AllowLoopback})
	lists := &resources.V1alpha3{Resources: p.resources, Streams: p.streams, Authorizer: p.may, AsCaller: p.caller(),
		Inventory: inventory, Remotes: remotes}
	all = append(all, lists.WebService())
	gateways := &kapisgateway.V1alpha1{Caches: p.store, Resources: p.resources, Streams: p.streams, AsCaller: p.caller(), Backend: p.gateways}
	terminals, charts := p.terminals(), backends.Charts(p.cfg.Egress.AllowLoopback)
	older := (&resources.V1alpha2{Lists: lists, Inventory: inventory, Remotes: remotes, Kubeconfigs: p.kubeconfigs()}).WebService()
	gateways.MountRouter(older)
	terminals.MountOlder(older)
	all = append(all, older)
	for _, ws := range []*restful.WebService{gateways.WebService(), (&kapisgateway.V1alpha2{Caches: p.store}).WebService(),
		application.WebService(application.Options{Resources: p.resources, Namespaces: p.rbac, AsCaller: p.caller(), Client: p.client,
			Charts: charts, Files: p.files, Host: p.cfg.Multicluster.HostClusterName,
			Fleet: fleetrelease.Members(p.hub, p.may, p.streams)})} {
		kinds.Mount(ws)
		all = append(all, ws)
	}
	all = append(all, (&operations.V1alpha2{Kube: p.kube, Authorizer: p.may}).WebService(), terminals.WebService(),
		(&workloadtemplate.V1alpha1{Resources: p.resources, Streams: p.streams, AsCaller: p.caller()}).WebService(),
		backends.NewPackages(p.store, p.client, charts).WebService())
	return slices.Concat(all, p.iamServices(kinds), p.clusterServices(kinds), p.tenantServices(kinds), dynamic.WebServices(kinds))
}

// terminals returns the routes of shells and files in containers, of shells on nodes and of kubectl shells.
func (p routes) terminals() *kapisterminal.V1alpha2 {
	t := p.cfg.Terminal
	return &kapisterminal.V1alpha2{Nodes: p.nodeTerminals(), Kubectl: p.kubectlTerminals(),
		Executor: p.kube, Authorizer: p.may, Streams: p.streams, Recorder: recordings(p).terminals(),
		Pods:      terminal.NewLimiter(terminal.PodLimits, time.Now),
		Uploads:   terminal.NewLimiter(terminal.UploadLimits, time.Now),
		Downloads: terminal.NewLimiter(terminal.DownloadLimits, time.Now),
		Files:     t.Files, UploadLimit: int64(t.UploadFileLimit), Debug: kapisterminal.Debug{Images: t.DebugImages, AsCaller: p.caller()},
		AllowedOrigins: t.AllowedOrigins, Idle: time.Duration(t.IdleTimeout), Max: time.Duration(t.MaxDuration)}
}

// nodeTerminals returns the shells on nodes, nil where there are none.
func (p routes) nodeTerminals() *kapisterminal.Nodes {
	n := p.cfg.Terminal.Node
	if n.Image == "" {
		return nil
	}
	selector, _ := labels.Parse(n.Selector) // Validate has refused what can't be parsed
	return &kapisterminal.Nodes{Image: n.Image, Profile: nodeshell.Profile(n.Profile), Selector: selector, Timeout: time.Duration(n.Timeout),
		Node: p.node, AsCaller: p.caller(), Limits: terminal.NewLimiter(terminal.NodeLimits, time.Now)}
}

// kubectlTerminals returns the kubectl shells, nil where there are none.
func (p routes) kubectlTerminals() *kapisterminal.Kubectl {
	k := p.cfg.Terminal.Kubectl
	if k.Image == "" {
		return nil
	}
	return &kapisterminal.Kubectl{Image: k.Image, Timeout: time.Duration(k.Timeout), Target: p.kubectlTarget, AsCaller: p.caller(),
		Logins: &kapisterminal.Logins{Sessions: p.sessions, Tokens: newIssuer(p.cfg, p.keys), OriginOf: p.accounts.originOf, Now: time.Now},
		Limits: terminal.NewLimiter(terminal.KubectlLimits, time.Now)}
}

// kubectlTarget returns where pods reach this server by TLS: in the cluster, by the certificate that the aggregated API has, or else where
// users do.
func (p routes) kubectlTarget() (kubectlshell.Target, error) {
	if p.aggregated != nil {
		return kubectlshell.Target{Server: "https://" + inClusterName + ":" + inClusterPort, Authority: p.aggregated.keeper.Bundle()}, nil
	}
	k := p.kubeconfigs()
	if k.Server == "" {
		return kubectlshell.Target{}, status.Errorf(http.StatusNotImplemented,
			"kubectl sends no credentials over plain http, and no https address of this server is known: set aggregated.enabled or kubeconfig.server in the configuration")
	}
	authority, err := k.ReadAuthority()
	return kubectlshell.Target{Server: k.Server, Authority: authority}, err
}

// node returns a node from the cache.
func (p routes) node(ctx context.Context, name string) (*corev1.Node, error) {
	kind, err := p.resources.Catalog().Resolve(ctx, corev1.SchemeGroupVersion.WithResource("nodes"))
	if err != nil {
		return nil, err
	}
	found, err := p.resources.Get(ctx, kind, plan.Scope{}, name)
	if err != nil {
		return nil, err
	}
	node := &corev1.Node{}
	if err := json.Unmarshal([]byte(found.JSON.String()), node); err != nil {
		return nil, fmt.Errorf("read the node %q: %w", name, err)
	}
	return node, nil
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
		Credentials: &credential.Handler{Target: target, Authenticator: a.authenticator, Sessions: p.sessions, APIKeys: a.keys,
			Factors: a.factors, Trust: a.trust, Now: time.Now},
		LoginRecords: &loginrecord.Handler{Target: target, Resources: p.resources},
		Members: &member.Handler{Users: p.users, Resources: p.resources, Bindings: bindings, Fleet: p.fromHub != nil,
			Removals: &removal.Remover{Users: p.users, Bindings: bindings, Rights: p.rbac, Authorizer: p.may, Member: p.fromHub != nil,
				Fleet: fleetrelease.Removal(p.hub, p.may, p.streams, p.fleet().Placed)}},
		RoleTemplates: &roletemplate.Handler{Target: target, Rights: p.rbac, Caches: p.store},
		Reviews:       &review.Handler{May: p.may, Grants: p.rbac, Users: p.users, Alias: p.aliases().Of},
	}
	now, older := iam.WebService(), iam.OlderWebService()
	kinds.Mount(now)
	p.mountOlder(older, kinds)
	kinds.Mount(older)
	return []*restful.WebService{now, older}
}

// clusterServices returns the routes of members and of the labels of clusters, and those of the kinds of their group.
func (p routes) clusterServices(kinds *dynamic.Handler) []*restful.WebService {
	h := &kapiscluster.V1alpha1{Caches: p.store, AsCaller: p.caller(), Objects: kinds.Write}
	if p.hub != nil {
		h.Fleet = p.hub
	}
	ws := h.WebService()
	kinds.Mount(ws)
	return []*restful.WebService{ws, h.Tower()}
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
	container, err := router.NewContainer(services)
	if err != nil {
		return nil, err
	}
	p.extensions = backends.New(backends.Options{Roots: router.Roots(services), Host: p.cluster.Host, Listeners: p.listeners,
		AllowLoopback: p.cfg.Egress.AllowLoopback, Caches: p.store, Client: p.client, Users: p.users, Streams: p.streams,
		Issuer: newIssuer(p.cfg, p.keys), Proof: &p.proof, GroupsOf: p.groups.Of})
	documents, err := openapi.New(openapi.Options{
		Config: p.cluster, WebServices: services, Title: "ks-apiserver", Version: version.Get().GitVersion,
		Extensions: backends.Documents(p.extensions),
	})
	if err != nil {
		return nil, err
	}
	kinds, err := discovery.New(discovery.Options{
		Catalog: p.store.Catalog(), Services: services, ByName: schema.GroupVersion{Group: resources.Group, Version: "v1alpha3"},
		Extensions: documents.Routes,
	})
	if err != nil {
		return nil, err
	}
	kube := &dynamic.NamesInMembers{Guard: p.guard, Kube: p.kube}
	kube.Users, kube.Groups = p.hub.NamesInMembers()
	return p.aggregated.before(p.chain(answer(kube, p.extensions, p.own(container, documents, kinds)))), nil
}

// answer returns the handler at the end of the chain. It leads a request to who answers it: kube-apiserver, an extension, or this server.
func answer(kube http.Handler, extensions *backend.Handler, own http.Handler) http.Handler {
	inYAML := filter.YAML(own)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := request.InfoFrom(r.Context())
		switch {
		case info == nil:
			web.WriteError(w, r, errors.New("the chain lacks filter.Info"))
		case info.IsKubernetes:
			kube.ServeHTTP(w, r)
		case extensions.Takes(info):
			extensions.ServeHTTP(w, r)
		case filter.WantsYAML(r):
			inYAML.ServeHTTP(w, r)
		default:
			own.ServeHTTP(w, r)
		}
	})
}

// own returns the handler of this server's own answers: the routes, and the few handlers that are no routes.
func (p routes) own(container *restful.Container, documents, kinds http.Handler) http.Handler {
	healthy := health.Handler{Checks: readiness(p).checks}
	metrics := promhttp.HandlerFor(p.metrics, promhttp.HandlerOpts{})
	joins := memberships(p).joins()
	gone := retired.New(func() retired.Kinds { return p.store.Catalog() }, p.audit != nil && p.audit.recent != nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = router.Canonical(r)
		w.Header()["X-Content-Type-Options"] = nosniff // some of these handlers are not ours
		info := request.InfoFrom(r.Context())
		if err := gone.Refuse(info); err != nil {
			web.WriteError(w, r, err)
			return
		}
		switch path := r.URL.Path; {
		case info != nil && info.IsResource:
			container.Dispatch(w, r) // the others are no resources
		case !authz.DecisionFrom(r.Context()).Allowed():
			container.Dispatch(w, r) // a partial list: only routes restrict their answer
		case path == "/metrics":
			metrics.ServeHTTP(w, r)
		case strings.HasPrefix(path, "/openapi/"):
			documents.ServeHTTP(w, r)
		case request.IsProbe(path):
			healthy.ServeHTTP(w, r)
		case memberships(p).owns(path):
			joins.ServeHTTP(w, r)
		case discovery.IsPath(path):
			kinds.ServeHTTP(w, r)
		default:
			container.Dispatch(w, r)
		}
	})
}

var nosniff = []string{"nosniff"}
