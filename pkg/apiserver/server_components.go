package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/admission"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	sessionv1alpha1 "kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/apiserver/backends"
	"kapis.dev/ks-apiserver/pkg/apiserver/drain"
	"kapis.dev/ks-apiserver/pkg/apiserver/fleet"
	"kapis.dev/ks-apiserver/pkg/appstore/file"
	"kapis.dev/ks-apiserver/pkg/authn/bearer"
	"kapis.dev/ks-apiserver/pkg/authn/clientcertificate"
	authnfleet "kapis.dev/ks-apiserver/pkg/authn/fleet"
	"kapis.dev/ks-apiserver/pkg/authn/requestheader"
	"kapis.dev/ks-apiserver/pkg/authn/serviceaccount"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/authz/rbac"
	"kapis.dev/ks-apiserver/pkg/authz/rego"
	"kapis.dev/ks-apiserver/pkg/cluster/agent"
	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/filter"
	"kapis.dev/ks-apiserver/pkg/gateway"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/account"
	"kapis.dev/ks-apiserver/pkg/iam/grouporigin"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/builtin"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/credential"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/kubeconfig"
	"kapis.dev/ks-apiserver/pkg/oauth"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/proxy"
	"kapis.dev/ks-apiserver/pkg/proxy/backend"
	"kapis.dev/ks-apiserver/pkg/redis"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/setting"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/tenant"
	"kapis.dev/ks-apiserver/pkg/terminal/recording"
	"kapis.dev/ks-apiserver/pkg/token"
)

const (
	// namespace is the namespace of this server's own Secrets.
	namespace = "kubesphere-system"
	// audience is the aud of access tokens: the API of this server.
	audience = "kapis"
	// tokensRemembered bounds the cached verified tokens, about 1 KiB each.
	tokensRemembered = 16 << 10
)

// components are the parts that the server consists of.
type components struct {
	cfg     *config.Config
	cluster *rest.Config
	client  kubernetes.Interface
	drain   *drain.Drain
	running sync.WaitGroup

	kubernetes *apimachineryversion.Info
	metrics    *prometheus.Registry
	requests   *filter.Metrics
	store      *store.Store
	resources  *resource.Service
	settings   *setting.Store
	rbac       *rbac.Index
	guard      *admission.Guard
	users      *iam.UserIndex
	groups     *grouporigin.Index
	sessions   *session.Store
	redis      *redis.Sessions // nil without one
	directory  *idp.Directory
	people     *account.Linker
	proxies    *requestheader.Authenticator
	holders    *clientcertificate.Authenticator
	accounts   accounts
	keys       *token.Keyring
	tokens     *token.Verifier
	legacy     []authenticator.Token
	pods       *serviceaccount.Authenticator
	clients    *client.Registry
	oauth      *oauth.Server
	who        authenticator.Request
	may        authz.Authorizer
	members    *tenant.Members // nil where roles do not decide
	streams    *stream.Guard
	kube       *proxy.Kube
	aggregated *aggregation // nil where it is off
	// kubeOfUsers is the kube-apiserver that users' kubeconfigs name; nil where they name this server.
	kubeOfUsers *kubeconfig.Kube
	audit       *auditLog           // nil where it is off
	recorder    *recording.Recorder // nil where terminals are not recorded
	gateways    gateway.Backend
	hub         *fleet.Hub                // nil where this server is the hub of no fleet
	fromHub     *authnfleet.Authenticator // nil where it is no member
	guest       atomic.Pointer[agent.Guest]
	files       *file.Files
	extensions  *backend.Handler // made with the routes, whose groups no extension takes
	proof       backends.ClientCertificate
	listeners   []net.Listener

	// feeds has each kind that this server itself watches, with whether it is known in full.
	feeds []feed
}

type feed struct {
	gvr    schema.GroupVersionResource
	roles  bool
	synced func() error
}

// newComponents makes the components and starts the background work, until ctx ends.
func newComponents(ctx context.Context, cfg *config.Config, cluster *rest.Config, version *apimachineryversion.Info) (*components, error) {
	p := &components{cfg: cfg, cluster: cluster, kubernetes: version, drain: drain.New(), metrics: prometheus.NewRegistry()}
	p.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, step := range []func(context.Context) error{
		func(context.Context) (err error) {
			p.gateways, err = gateway.NewBackend(cfg.Gateway.ClassName, cfg.Gateway.Templates)
			return err
		},
		p.makeClients, p.makeAudit, recordings{p}.open, p.makeStore, p.makeIdentity, p.makeProviders,
		p.makeAccounts, p.makeLogin, memberships{p}.make, p.makeProxy, p.follow, p.makeAggregated,
	} {
		if err := step(ctx); err != nil {
			return p, err
		}
	}
	p.running.Go(func() { p.keys.Run(ctx) })
	p.running.Go(func() { p.keys.Rotate(ctx, p.rotation()) })
	p.running.Go(func() { p.clients.Run(ctx) })
	p.running.Go(func() { p.proof.Run(ctx, p.client) })
	p.runSessions(ctx)
	p.running.Go(func() { p.directory.Run(ctx) })
	p.running.Go(func() { p.settings.Run(ctx) })
	p.runAccounts(ctx)
	return p, nil
}

// wait returns when the background work has ended.
func (p *components) wait() {
	p.running.Wait()
	if p.store != nil {
		p.store.Wait()
	}
}

func (p *components) makeClients(context.Context) (err error) {
	if p.client, err = kubernetes.NewForConfig(p.cluster); err != nil {
		return fmt.Errorf("make a client of the cluster: %w", err)
	}
	if p.kubeOfUsers, err = kubeOfUsers(p.cfg.Kubeconfig, p.cluster); err != nil {
		return err
	}
	if p.files, err = openFiles(p.client, &p.cfg.S3); err != nil {
		return err
	}
	p.requests, err = filter.NewMetrics(p.metrics)
	return err
}

func (p *components) makeStore(ctx context.Context) (err error) {
	o := store.Options{Config: p.cluster, Schemas: resource.Schemas(), Registerer: p.metrics,
		MemoryBytes: store.MemoryFor(int64(p.cfg.Resources.CacheMemory), debug.SetMemoryLimit(-1))}
	if p.store, err = store.New(ctx, o); err != nil {
		return err
	}
	p.settings = setting.New(p.client, namespace)
	p.resources = resource.New(p.store, resource.Options{ServedOnly: p.cfg.Resources.ServedOnly, MaxItems: p.cfg.Resources.MaxItems})
	if p.rbac, err = rbac.NewIndex(); err != nil {
		return err
	}
	// Every caller here has rights by our roles. A service account uses its rights of Kubernetes' own at /apis.
	p.guard = &admission.Guard{Holdings: p.rbac, Known: admission.NewCache(), Host: p.cfg.Multicluster.HostClusterName}
	p.rbac.CompilePolicies(func(text string) (rbac.Policy, error) {
		policy, err := rego.Compile(text)
		if err != nil {
			return nil, err // and not a Policy that is a nil pointer
		}
		return policy, nil
	})
	return nil
}

func (p *components) makeIdentity(ctx context.Context) (err error) {
	secrets := p.client.CoreV1().Secrets(namespace)
	p.keys, err = token.OpenKeyring(ctx, secrets, time.Now)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; is the project installed in this cluster (make install)?", err)
	}
	if err != nil {
		return err
	}
	if err := p.keys.Register(p.metrics); err != nil {
		return err
	}
	issuer := p.cfg.Authentication.Issuer
	if p.tokens, err = token.NewVerifier(token.Rules{
		Keys: p.keys, Issuer: issuer.URL, Audience: audience, Leeway: time.Duration(issuer.MaximumClockSkew),
		Now: time.Now, CacheSize: tokensRemembered, Metrics: p.metrics,
	}); err != nil {
		return err
	}
	if p.clients, err = client.NewRegistry(secrets, fileClients(p.cfg.Authentication.Clients), p.lifetime()); err != nil {
		return err
	}
	p.users = iam.NewUserIndex()
	p.users.CompleteBy(store.Complete(p.store, iamv1beta1.SchemeGroupVersion.WithResource("users")))
	p.groups = grouporigin.New(p.users, p.rbac.GroupsChanged)
	p.rbac.GroupsIn(p.groups.In)
	return p.makeSessions()
}

// lifetime returns the lifetime of sessions whose client sets none.
func (p *components) lifetime() session.Lifetime {
	issuer := p.cfg.Authentication.Issuer
	return session.Lifetime{MaxAge: time.Duration(issuer.AccessTokenMaxAge), Inactivity: time.Duration(issuer.AccessTokenInactivityTimeout)}
}

// isActive reports whether a user can log in, for the guard that keeps an administrator.
func (p *components) isActive(_ context.Context, _, name string) (bool, error) {
	u := p.users.ByName(name)
	return u != nil && !u.Deleting && u.State != iamv1beta1.UserDisabled, nil
}

// rotation returns when signing keys are replaced. Tokens and sessions live at most as long as the longest session.
func (p *components) rotation() token.Rotation {
	return token.Rotation{Every: time.Duration(p.cfg.Authentication.Issuer.SigningKeyRotation), Longest: p.lifetime().Longest()}
}

// makeProviders opens the identity providers, and makes the component that links their identities to users.
func (p *components) makeProviders(context.Context) error {
	file := make([][]byte, 0, len(p.cfg.Authentication.IdentityProviders))
	for _, raw := range p.cfg.Authentication.IdentityProviders {
		file = append(file, raw)
	}
	p.directory = idp.NewDirectory(idp.DirectoryOptions{
		Secrets: p.client.CoreV1().Secrets(namespace), Types: builtin.Types(), File: file, AllowLoopback: p.cfg.Egress.AllowLoopback,
		Now: time.Now,
	})
	api, err := account.NewUserClient(p.cluster)
	if err != nil {
		return err
	}
	native := &account.NativeNames{Client: p.client.RbacV1(), Now: time.Now}
	p.guard.Named, p.guard.NamedGroup, p.guard.Active = native.Has, native.HasGroup, p.isActive
	p.people = account.New(account.Options{
		API: api, Users: p.users, NamedNatively: native.Has, Provider: p.directory.Entry,
		Named:        func(name string) bool { return p.rbac.Named(name) || p.guard.Known.Named(name) || p.hub.Binds(name) },
		Reservations: &session.RegistrationLock{API: p.sessions.API, Now: time.Now},
		Synced:       func() bool { return p.identityKnown() == nil && p.rolesKnown() == nil },
	})
	p.proxies = &requestheader.Authenticator{Directory: p.directory, Accounts: p.people, Origin: p.origin(), Now: time.Now}
	p.holders = &clientcertificate.Authenticator{Directory: p.directory, Accounts: p.people, Origin: p.origin(), Now: time.Now}
	return nil
}

func fileClients(in []config.Client) []client.Client {
	out := make([]client.Client, 0, len(in))
	for _, c := range in {
		out = append(out, client.Client{
			Name: c.Name, Secret: client.Secret(c.Secret), Trusted: c.Trusted, GrantMethod: c.GrantMethod,
			RespondWithChallenges: c.RespondWithChallenges,
			ScopeRestrictions:     c.ScopeRestrictions, RedirectURIs: c.RedirectURIs, PostLogoutRedirectURIs: c.PostLogoutRedirectURIs,
			AccessTokenMaxAgeSeconds: c.AccessTokenMaxAgeSeconds, AccessTokenInactivityTimeoutSeconds: c.AccessTokenInactivityTimeoutSeconds,
		})
	}
	return out
}

func (p *components) makeLogin(context.Context) (err error) {
	issuer := p.cfg.Authentication.Issuer
	p.oauth, err = oauth.New(oauth.Options{
		Issuer: issuer.URL, Tokens: newIssuer(p.cfg, p.keys), Verifier: p.tokens, Keys: p.keys, Clients: p.clients, Sessions: p.sessions,
		Authenticator: p.accounts.authenticator, Directory: p.directory, Factors: p.accounts.factors, APIKeys: p.accounts.keys,
		ChangePassword: p.accounts.authenticator.ChangePassword, OtherTokens: &bearer.APIKeys{Keys: p.accounts.keys},
		Origin: p.accounts.originOf, Origins: p.ours(), Console: p.console(),
		PasswordGrant: p.cfg.Authentication.PasswordGrant, CodeLife: time.Duration(issuer.AuthorizationCodeMaxAge), Now: time.Now,
		Metrics: p.metrics, Loaded: p.secretsKnown, GroupsOf: p.groups.OfUser,
	})
	return err
}

// openFiles returns the store of the files of the application store: a bucket, or ConfigMaps.
func openFiles(client kubernetes.Interface, s *config.S3) (*file.Files, error) {
	host, tls := s.Address()
	return file.Open(client.CoreV1(), file.Options{OldOnly: !s.NewFiles, Bucket: file.BucketOptions{Host: host, Plain: !tls,
		Region: s.Region, Name: s.Bucket, HostStyle: !s.ForcePathStyle, KeyID: s.AccessKeyID, Key: string(s.SecretAccessKey),
		Token: string(s.SessionToken), AuthorityFile: s.CertificateAuthority}})
}

// newIssuer returns the issuer of access tokens.
func newIssuer(cfg *config.Config, keys token.KeySource) *token.Issuer {
	return &token.Issuer{Keys: keys, URL: cfg.Authentication.Issuer.URL, Audience: audience, Now: time.Now}
}

func (p *components) makeProxy(context.Context) (err error) {
	if err := p.makeLegacy(); err != nil {
		return err
	}
	if err := p.makeAuthorizer(); err != nil {
		return err
	}
	if err := p.makePods(); err != nil {
		return err
	}
	p.who = p.authenticator()
	p.streams = stream.New(stream.Options{Recheck: filter.Recheck(p.who, p.may), Drain: p.drain.Started})
	p.kube, err = proxy.NewKube(proxy.KubeOptions{
		Config: p.cluster, Streams: p.streams, Extra: credential.SessionOfOwnUser, FieldValidation: p.cfg.Experimental.ValidationDirective,
	})
	return err
}

// follow feeds the components that must have current roles, users and sessions.
func (p *components) follow(context.Context) error {
	sinks := p.rbac.Sinks()
	gvrs := make([]schema.GroupVersionResource, 0, len(sinks))
	for gvr := range sinks {
		gvrs = append(gvrs, gvr)
	}
	slices.SortFunc(gvrs, func(a, b schema.GroupVersionResource) int { return cmp.Compare(a.String(), b.String()) })
	for _, gvr := range gvrs {
		p.feeds = append(p.feeds, feed{gvr, true, p.store.Feed(gvr, sinks[gvr])})
	}
	p.followGuard()
	users := iamv1beta1.SchemeGroupVersion.WithResource("users")
	sessions := sessionv1alpha1.SchemeGroupVersion.WithResource("sessions")
	p.feeds = append(p.feeds, feed{users, false, p.store.Feed(users, p.users)},
		feed{sessions, false, p.store.Feed(sessions, p.sessions)})
	p.store.Feed(grouporigin.Kind(), p.groups) // followGuard lists the kind
	p.followAccounts()
	memberships{p}.follow()
	return nil
}

// followGuard feeds what the guard needs besides roles, and lists it with the feeds of the same kinds.
func (p *components) followGuard() {
	for gvr, sink := range p.guard.Known.Sinks() {
		synced := p.store.Feed(gvr, sink)
		n := slices.IndexFunc(p.feeds, func(f feed) bool { return f.gvr == gvr })
		if n < 0 {
			p.feeds = append(p.feeds, feed{gvr, true, synced})
			continue
		}
		roles := p.feeds[n].synced
		p.feeds[n].synced = func() error { return cmp.Or(roles(), synced()) }
	}
}
