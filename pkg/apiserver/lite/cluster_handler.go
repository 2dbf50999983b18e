package lite

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/apiserver/openapi"
	authnfleet "kapis.dev/ks-apiserver/pkg/authn/fleet"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/authz/delegated"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/cluster/lite"
	"kapis.dev/ks-apiserver/pkg/filter"
	"kapis.dev/ks-apiserver/pkg/kapis/discovery"
	"kapis.dev/ks-apiserver/pkg/kapis/dynamic"
	"kapis.dev/ks-apiserver/pkg/kapis/dynamic/read"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"
	kapisversion "kapis.dev/ks-apiserver/pkg/kapis/version"
	"kapis.dev/ks-apiserver/pkg/proxy"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/router"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/version"
)

// Clusters serves lite clusters, whose caches share one bound.
type Clusters struct {
	// MemoryBytes is how much the caches of all of them may take together; 0 for any amount.
	MemoryBytes int64
	// MaxItems bounds a list without a limit.
	MaxItems int

	mu     sync.Mutex
	stores map[*store.Store]bool
}

// Serve returns the handler for one cluster, which works until ctx ends.
func (c *Clusters) Serve(ctx context.Context, t lite.Terms) (*lite.Served, error) {
	config := rest.CopyConfig(t.Config)
	config.QPS = -1 // what users ask is bounded for each member
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	caches, err := c.open(ctx, config)
	if err != nil {
		return nil, err
	}
	reviewer, err := delegated.New(delegated.Options{Client: client.AuthorizationV1().SubjectAccessReviews(),
		Metrics: prometheus.NewRegistry(), Now: time.Now}) // its metrics are those of the aggregated API
	if err != nil {
		return nil, err
	}
	handler, err := newHandler(ctx, config, t, caches, &decisions{reviewer: reviewer, catalog: caches.Catalog()}, c.MaxItems)
	if err != nil {
		return nil, err
	}
	return &lite.Served{Handler: handler,
		Bound: func(ctx context.Context) (users, clusterUsers []string, err error) { return bound(ctx, caches) },
		Nodes: func(ctx context.Context) (*index.Snapshot, error) {
			return caches.Snapshot(ctx, corev1.SchemeGroupVersion.WithResource("nodes"))
		}}, nil
}

// open opens the caches of a cluster.
func (c *Clusters) open(ctx context.Context, config *rest.Config) (*store.Store, error) {
	var own *store.Store
	own, err := store.New(ctx, store.Options{Config: config, Schemas: resource.Schemas(), MemoryBytes: c.MemoryBytes,
		MemorySetting: "fleet.liteMemory", MemoryElsewhere: func() int64 { return c.memoryBut(own) }})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stores == nil {
		c.stores = map[*store.Store]bool{}
	}
	c.stores[own] = true
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.stores, own)
	})
	return own, nil
}

// memoryBut returns how much memory the caches of all other clusters take.
func (c *Clusters) memoryBut(own *store.Store) (total int64) {
	c.mu.Lock()
	all := slices.Collect(maps.Keys(c.stores))
	c.mu.Unlock()
	for _, s := range all {
		if s != own {
			total += store.MemoryOf(s)
		}
	}
	return total
}

// newHandler returns the chain of a cluster: what is for kube-apiserver goes there as the user, lists come from the caches.
func newHandler(ctx context.Context, config *rest.Config, t lite.Terms, caches *store.Store, may authz.Authorizer, maxItems int) (
	http.Handler, error) {
	who := &people{Authenticator: authnfleet.Authenticator{}, groups: t.Groups}
	streams := stream.New(stream.Options{Recheck: filter.Recheck(who, may), Drain: ctx})
	kube, err := proxy.NewKube(proxy.KubeOptions{Config: config, Streams: streams})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, kube.CloseIdleConnections)
	lists := resource.New(caches, resource.Options{MaxItems: maxItems})
	asCaller := caller.Client{May: may, Kube: kube}
	kinds := &dynamic.Handler{Handler: &read.Handler{Resources: lists, Streams: streams, Authorizer: may, AsCaller: asCaller}, Kube: kube}
	byName := new(restful.WebService)
	byName.Path(resources.Root).Produces(restful.MIME_JSON).Doc("Objects of any kind, by its plural name")
	(&resources.V1alpha3{Resources: lists, Streams: streams, Authorizer: may, AsCaller: asCaller}).Mount(byName)
	services := append((kapisversion.Handler{Kubernetes: func() *apimachineryversion.Info {
		return &apimachineryversion.Info{GitVersion: t.KubernetesVersion}
	}}).WebServices(), byName)
	services = append(services, dynamic.WebServices(kinds)...)
	container, err := router.NewContainer(services)
	if err != nil {
		return nil, err
	}
	groups, err := discovery.New(discovery.Options{Catalog: caches.Catalog(), Services: services,
		ByName: schema.GroupVersion{Group: resources.Group, Version: "v1alpha3"}})
	if err != nil {
		return nil, err
	}
	documents, err := openapi.New(openapi.Options{Config: config, WebServices: services, Title: "ks-apiserver",
		Version: version.Get().GitVersion, Extensions: func() []openapi.Extension { return nil }})
	if err != nil {
		return nil, err
	}
	end := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info := request.InfoFrom(r.Context()); info != nil && info.IsKubernetes {
			kube.ServeHTTP(w, r)
			return
		}
		r = router.Canonical(r)
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, "/openapi/"):
			documents.ServeHTTP(w, r)
		case discovery.IsPath(path):
			groups.ServeHTTP(w, r)
		default:
			container.ServeHTTP(w, r)
		}
	})
	return filter.Chain(end,
		filter.Body(ctx, filter.BodyStallTimeout),
		filter.Recover,
		filter.Info,
		filter.Limit(filter.MaxBody, nil),
		filter.Upgrade(nil),
		filter.Authentication{Authenticator: who, Proxies: who}.Wrap,
		filter.Cluster(), // requests for another cluster have no business here
		missing(t.Name, caches.Catalog()),
		filter.Authorize(may),
		filter.YAML,
	), nil
}
