package apiserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/aggregated"
	queryv1alpha1 "kapis.dev/ks-apiserver/pkg/api/query/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/authn/frontproxy"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/authz/delegated"
	"kapis.dev/ks-apiserver/pkg/certificate"
	"kapis.dev/ks-apiserver/pkg/filter"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

// inClusterName and inClusterPort are where pods reach this server by TLS, with the certificate of the aggregated API.
const inClusterName, inClusterPort = "ks-apiserver." + queryv1alpha1.ServiceNamespace + ".svc", "9443"

// aggregation is the API that kube-apiserver passes on to this server. A client chooses it by the name that it asks for in the TLS
// handshake: its connections have another certificate, and their requests a chain of their own, which shares no authenticator with the
// ordinary one.
type aggregation struct {
	proxy   *frontproxy.Authenticator
	keeper  *certificate.Keeper
	handler http.Handler
}

// makeAggregated makes the aggregated API, if it is enabled.
func (p *components) makeAggregated(ctx context.Context) error {
	if !p.cfg.Aggregated.Enabled {
		return nil
	}
	keeper, err := certificate.Open(ctx, certificate.Options{
		Secrets: p.client.CoreV1().Secrets(queryv1alpha1.ServiceNamespace), Name: queryv1alpha1.ServingSecret,
		Hosts: []string{queryv1alpha1.ServerName, inClusterName}, Now: time.Now,
	})
	if apierrors.IsForbidden(err) {
		return errors.Join(err, errors.New("aggregated.enabled needs the rights of config/aggregated"))
	}
	if err != nil {
		return err
	}
	reviewer, err := delegated.New(delegated.Options{Client: p.client.AuthorizationV1().SubjectAccessReviews(), Metrics: p.metrics,
		Now: time.Now})
	if err != nil {
		return err
	}
	proxy, audit := &frontproxy.Authenticator{Now: time.Now}, p.auditing()
	audit.FrontProxied, audit.RealOf, audit.Source = true, aggregated.RealOf(p.resources), nil
	api := aggregated.New(aggregated.Options{FrontProxy: proxy, Reviewer: reviewer, Resources: p.resources, Namespaces: p.namespacesOf,
		Authenticated:   func(next http.Handler) http.Handler { return filter.Chain(next, filter.FrontProxied, audit.Begin) },
		Unauthenticated: filter.LimitHTTP2, Drain: p.drain.Started})
	p.aggregated = &aggregation{proxy: proxy, keeper: keeper, handler: filter.Chain(api,
		filter.Observe(p.requests), filter.Body(p.drain.Started, filter.BodyStallTimeout), filter.Recover,
		audit.Wrap, filter.Info, filter.Limit(filter.MaxBody, nil))}
	p.running.Go(func() { keeper.Run(ctx) })
	p.running.Go(func() { proxy.Run(ctx, p.client.CoreV1().ConfigMaps(frontproxy.Namespace)) })
	return nil
}

// namespacesOf returns the namespaces in which our roles allow a user what they do not allow in the whole cluster.
func (p *components) namespacesOf(ctx context.Context, u user.Info, verb string, k *store.Kind) ([]string, error) {
	gvr := k.GVR
	info := &request.Info{
		Verb: verb, IsResource: true, APIPrefix: "kapis", APIGroup: gvr.Group, APIVersion: gvr.Version, Resource: gvr.Resource,
		Path: "/kapis/" + gvr.Group + "/" + gvr.Version + "/" + gvr.Resource, Scope: request.Cluster,
	}
	if gvr.Group == "" {
		info.APIPrefix, info.Path = "kapi", "/kapi/"+gvr.Version+"/"+gvr.Resource
	}
	d, err := authz.Loaded{Authorizer: p.rbac, Known: p.rolesKnown}.Authorize(ctx, u, info)
	if list := d.PartialList(); err == nil && list != nil {
		return list.Namespaces, nil
	}
	return nil, err
}

// before returns a handler that sends requests of connections to the aggregated API there, and all others to next.
func (a *aggregation) before(next http.Handler) http.Handler {
	if a == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil && isAggregated(r.TLS.ServerName) {
			a.handler.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isAggregated(serverName string) bool {
	return strings.EqualFold(serverName, queryv1alpha1.ServerName)
}

// aggregatedTLS has the TLS configuration of connections to the aggregated API. It is made before the components are.
type aggregatedTLS struct {
	enabled bool

	mu    sync.Mutex
	api   *aggregation
	known []*x509.Certificate
	made  *tls.Config // for known
}

// follow sets the API; nil serves none.
func (a *aggregatedTLS) follow(api *aggregation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.api = api
}

// certificate returns the certificate of the API.
func (a *aggregatedTLS) certificate() (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.api == nil {
		return nil, errors.New("the server is starting")
	}
	return a.api.keeper.Certificate(nil)
}

// config returns the TLS configuration of a connection to the API, and nil for any other: it asks for a certificate, and names the
// authorities of the front proxy. Each request verifies the certificate: a handshake could only break off, without a word.
func (a *aggregatedTLS) config(hello *tls.ClientHelloInfo, served *tls.Config) *tls.Config {
	if !a.enabled || !isAggregated(hello.ServerName) {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.api == nil {
		return nil
	}
	authorities := a.api.proxy.Authorities()
	if a.made != nil && slices.EqualFunc(authorities, a.known, (*x509.Certificate).Equal) {
		return a.made
	}
	c := served.Clone()
	c.GetConfigForClient = nil
	c.GetCertificate = a.api.keeper.Certificate
	c.ClientAuth, c.ClientCAs = tls.RequestClientCert, x509.NewCertPool()
	for _, authority := range authorities {
		c.ClientCAs.AddCert(authority)
	}
	a.made, a.known = c, authorities
	return c
}
