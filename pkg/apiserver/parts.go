package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	sessionv1alpha1 "kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/authz/rbac"
	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/filter"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/oauth"
	"kapis.dev/ks-apiserver/pkg/proxy"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/token"
)

const (
	// namespace is where this server's own Secrets are.
	namespace = "kubesphere-system"
	// audience is the aud of access tokens: the API of this server.
	audience = "kapis"
	// tokensRemembered bounds the verified tokens in memory, about 1 KiB each.
	tokensRemembered = 16 << 10
)

// parts are what the server is made of.
type parts struct {
	cfg     *config.Config
	cluster *rest.Config
	client  kubernetes.Interface
	drain   *drain
	running sync.WaitGroup

	kubernetes *apimachineryversion.Info
	metrics    *prometheus.Registry
	requests   *filter.Metrics
	store      *store.Store
	resources  *resource.Service
	rbac       *rbac.Index
	users      *iam.Users
	sessions   *iam.Sessions
	keys       *token.Keyring
	tokens     *token.Verifier
	clients    *oauth.Clients
	oauth      *oauth.Server
	who        authenticator.Request
	may        authz.Authorizer
	streams    *stream.Guard
	kube       *proxy.Kube

	// feeds says of each kind that this server itself follows whether it is known in full.
	feeds []feed
}

type feed struct {
	gvr    schema.GroupVersionResource
	roles  bool
	synced func() error
}

// newParts makes the parts and starts what runs in the background, until ctx ends.
func newParts(ctx context.Context, cfg *config.Config, cluster *rest.Config, version *apimachineryversion.Info) (*parts, error) {
	p := &parts{cfg: cfg, cluster: cluster, kubernetes: version, drain: newDrain(), metrics: prometheus.NewRegistry()}
	p.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, step := range []func(context.Context) error{
		p.makeClients, p.makeStore, p.makeIdentity, p.makeLogin, p.makeProxy, p.follow,
	} {
		if err := step(ctx); err != nil {
			return p, err
		}
	}
	p.running.Go(func() { p.keys.Run(ctx) })
	p.running.Go(func() { p.clients.Run(ctx) })
	p.running.Go(func() { p.sessions.Run(ctx) })
	return p, nil
}

// wait returns when the background has ended.
func (p *parts) wait() {
	p.running.Wait()
	if p.store != nil {
		p.store.Wait()
	}
}

func (p *parts) makeClients(context.Context) (err error) {
	if p.client, err = kubernetes.NewForConfig(p.cluster); err != nil {
		return fmt.Errorf("make a client of the cluster: %w", err)
	}
	p.requests, err = filter.NewMetrics(p.metrics)
	return err
}

func (p *parts) makeStore(ctx context.Context) (err error) {
	if p.store, err = store.New(ctx, store.Options{Config: p.cluster, Schemas: resource.Schemas(), Registerer: p.metrics}); err != nil {
		return err
	}
	p.resources = resource.New(p.store, resource.Options{ServedOnly: p.cfg.Resources.ServedOnly})
	p.rbac, err = rbac.NewIndex()
	return err
}

func (p *parts) makeIdentity(ctx context.Context) (err error) {
	secrets := p.client.CoreV1().Secrets(namespace)
	p.keys, err = token.OpenKeyring(ctx, secrets, time.Now)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; is the project installed in this cluster (make install)?", err)
	}
	if err != nil {
		return err
	}
	issuer := p.cfg.Authentication.Issuer
	if p.tokens, err = token.NewVerifier(token.Rules{
		Keys: p.keys, Issuer: issuer.URL, Audience: audience, Leeway: time.Duration(issuer.MaximumClockSkew),
		Now: time.Now, CacheSize: tokensRemembered, Metrics: p.metrics,
	}); err != nil {
		return err
	}
	lifetime := iam.Lifetime{MaxAge: time.Duration(issuer.AccessTokenMaxAge), Inactivity: time.Duration(issuer.AccessTokenInactivityTimeout)}
	if p.clients, err = oauth.NewClients(secrets, fileClients(p.cfg.Authentication.Clients), lifetime); err != nil {
		return err
	}
	api, err := iam.NewSessionClient(p.cluster)
	if err != nil {
		return err
	}
	p.users = iam.NewUsers()
	p.sessions, err = iam.NewSessions(iam.SessionOptions{
		API: api, Users: p.users, Keys: p.keys, Lifetime: p.clients.Lifetime, Skew: time.Duration(issuer.MaximumClockSkew),
		Single: !p.cfg.Authentication.MultipleLogin, Now: time.Now, Synced: func() bool { return p.identityKnown() == nil }, Metrics: p.metrics,
	})
	return err
}

func fileClients(in []config.Client) []oauth.Client {
	out := make([]oauth.Client, 0, len(in))
	for _, c := range in {
		out = append(out, oauth.Client{
			Name: c.Name, Secret: oauth.ClientSecret(c.Secret), Trusted: c.Trusted, GrantMethod: c.GrantMethod, RespondWithChallenges: c.RespondWithChallenges,
			ScopeRestrictions: c.ScopeRestrictions, RedirectURIs: c.RedirectURIs,
			AccessTokenMaxAgeSeconds: c.AccessTokenMaxAgeSeconds, AccessTokenInactivityTimeoutSeconds: c.AccessTokenInactivityTimeoutSeconds,
		})
	}
	return out
}

func (p *parts) makeLogin(context.Context) error {
	passwords, err := iam.NewPasswords(p.users, p.metrics)
	if err != nil {
		return err
	}
	url := p.cfg.Authentication.Issuer.URL
	p.oauth, err = oauth.New(oauth.Options{
		Issuer:   url,
		Tokens:   &token.Issuer{Keys: p.keys, URL: url, Audience: audience, Now: time.Now},
		Verifier: p.tokens, Keys: p.keys, Clients: p.clients, Passwords: passwords, Sessions: p.sessions, Now: time.Now, Metrics: p.metrics,
	})
	return err
}

func (p *parts) makeProxy(context.Context) (err error) {
	p.who, p.may = p.authenticator(), p.authorizer()
	p.streams = stream.New(stream.Options{Recheck: filter.Recheck(p.who, p.may), Drain: p.drain.started})
	p.kube, err = proxy.NewKube(proxy.KubeOptions{Config: p.cluster, Streams: p.streams})
	return err
}

// follow feeds what must know roles, users and sessions at any moment.
func (p *parts) follow(context.Context) error {
	sinks := p.rbac.Sinks()
	gvrs := make([]schema.GroupVersionResource, 0, len(sinks))
	for gvr := range sinks {
		gvrs = append(gvrs, gvr)
	}
	slices.SortFunc(gvrs, func(a, b schema.GroupVersionResource) int { return cmp.Compare(a.String(), b.String()) })
	for _, gvr := range gvrs {
		p.feeds = append(p.feeds, feed{gvr, true, p.store.Feed(gvr, sinks[gvr])})
	}
	users := iamv1beta1.SchemeGroupVersion.WithResource("users")
	sessions := sessionv1alpha1.SchemeGroupVersion.WithResource("sessions")
	p.feeds = append(p.feeds,
		feed{users, false, p.store.Feed(users, p.users)},
		feed{sessions, false, p.store.Feed(sessions, p.sessions)})
	return nil
}

// rolesKnown is nil once every kind of role and binding is known. A kind that the cluster does not
// have has no objects: nothing is waited for.
func (p *parts) rolesKnown() error {
	for _, f := range p.feeds {
		if err := f.synced(); f.roles && err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func (p *parts) identityKnown() error {
	for _, f := range p.feeds {
		if err := f.synced(); !f.roles && err != nil {
			return err
		}
	}
	return nil
}

// checks are the lines of /readyz. Only what no request can do without is vital.
func (p *parts) checks() []check {
	all := []check{
		{name: "shutdown", vital: true, fault: p.drain.fault},
		{name: "oauth-clients", fault: p.clientsFault},
		{name: "discovery", fault: p.store.Catalog().Err},
	}
	for _, f := range p.feeds {
		all = append(all, check{name: "feed/" + f.gvr.GroupResource().String(), vital: true, fault: func() error {
			err := f.synced()
			if apierrors.IsNotFound(err) {
				return nil // shown below, as what it degrades
			}
			return err
		}})
	}
	for _, c := range p.store.Conditions() {
		name := "cache/" + c.GVR.GroupResource().String()
		if c.Namespaces > 0 {
			name += "@namespaces"
		}
		all = append(all, check{name: name, fault: func() error { return c.Err }})
	}
	return all
}

func (p *parts) clientsFault() error {
	if !p.clients.Synced() {
		return errors.New("the Secrets of OAuth clients are not loaded")
	}
	if wrong := p.clients.Problems(); len(wrong) > 0 {
		return errors.New(wrong[0])
	}
	return nil
}
