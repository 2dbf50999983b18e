package controllermanager

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/admission"
	"kapis.dev/ks-apiserver/pkg/admission/fairqueue"
	quotav1alpha2 "kapis.dev/ks-apiserver/pkg/api/quota/v1alpha2"
	"kapis.dev/ks-apiserver/pkg/authz/rbac"
	"kapis.dev/ks-apiserver/pkg/certificate"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	controllercatalogue "kapis.dev/ks-apiserver/pkg/controller/catalogue"
	"kapis.dev/ks-apiserver/pkg/controller/configsecret"
	controllerextension "kapis.dev/ks-apiserver/pkg/controller/extension"
	"kapis.dev/ks-apiserver/pkg/controller/installapproval"
	"kapis.dev/ks-apiserver/pkg/controller/ksserviceaccount"
	"kapis.dev/ks-apiserver/pkg/controller/resourcequota"
	"kapis.dev/ks-apiserver/pkg/controller/serviceaccount"
	"kapis.dev/ks-apiserver/pkg/controller/user"
	"kapis.dev/ks-apiserver/pkg/controller/workspace"
	"kapis.dev/ks-apiserver/pkg/iam/account"
	"kapis.dev/ks-apiserver/pkg/store"
)

const (
	// service is the Service by which kube-apiserver reaches the webhooks in the cluster, in Namespace.
	service = "ks-controller-manager"
	// certificateSecret has the authority and the certificate of the webhooks.
	certificateSecret = "ks-controller-manager-webhook"

	labelProtected = "kubesphere.io/protected-resource"
)

// webhooks are the admission webhooks that kube-apiserver calls before it stores an object. Every replica answers.
type webhooks struct {
	// url is their address from outside the cluster; nil for the service.
	url *url.URL
	// host is the name of the host's Cluster, "" on a member.
	host string
	// clientCA signs kube-apiserver's client certificate; nil to answer callers without one.
	clientCA *x509.CertPool
	// charts reads charts from repositories.
	charts *source.Client
	server ctrlwebhook.Server
	keeper *certificate.Keeper
	client kubernetes.Interface
	index  *rbac.Index
	known  *admission.Cache
	limits *resourcequota.Limits
	// counted says that the controller of quotas runs. If no controller counts, the webhook must not be registered: it
	// would refuse everything.
	counted bool
	store   *store.Store
	stop    context.CancelFunc // ends the feeds of store
	synced  []func() error
}

// newWebhooks makes the certificate, and starts to watch roles and bindings until end is called. With port 0 there are no
// webhooks: then it returns nil.
func newWebhooks(ctx context.Context, rc *rest.Config, o Options) (*webhooks, error) {
	if o.WebhookPort == 0 {
		return nil, nil //nolint:nilnil // nil is none
	}
	h := &webhooks{known: admission.NewCache(), limits: resourcequota.NewLimits()}
	hosts, bind := []string{service + "." + Namespace + ".svc", service + "." + Namespace, service}, ""
	if o.WebhookURL != "" {
		u, err := url.Parse(o.WebhookURL)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return nil, fmt.Errorf("--webhook-url: %.100q is not the https URL of a host: https://HOST:PORT is expected", o.WebhookURL)
		}
		h.url, hosts = u, []string{u.Hostname()}
		if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsLoopback() {
			bind = ip.String()
		}
	}
	var err error
	if h.clientCA, err = readClientCA(o.WebhookClientCAFile); err != nil {
		return nil, err
	}
	if err = free(ctx, net.JoinHostPort(bind, strconv.Itoa(o.WebhookPort))); err != nil {
		return nil, fmt.Errorf("serve webhooks: %w", err)
	}
	if h.client, err = kubernetes.NewForConfig(rc); err != nil {
		return nil, fmt.Errorf("make a client of the cluster: %w", err)
	}
	h.keeper, err = certificate.Open(ctx, certificate.Options{
		Secrets: h.client.CoreV1().Secrets(Namespace), Name: certificateSecret, Hosts: hosts, Now: time.Now,
	})
	if err != nil {
		return nil, err
	}
	h.server = ctrlwebhook.NewServer(ctrlwebhook.Options{Host: bind, Port: o.WebhookPort, TLSOpts: []func(*tls.Config){h.tls}})
	return h, h.follow(ctx, rc)
}

// follow starts the feeds of the objects that the rules read. They outlive ctx, which ends when a stop is requested: the webhooks decide
// until Manager.Run has stopped them.
func (h *webhooks) follow(ctx context.Context, rc *rest.Config) (err error) {
	if h.index, err = rbac.NewIndex(); err != nil {
		return err
	}
	feeds, stop := context.WithCancel(context.WithoutCancel(ctx))
	if h.store, err = store.New(feeds, store.Options{Config: rc}); err != nil {
		stop()
		return err
	}
	h.stop = stop
	for gvr, sink := range h.index.Sinks() {
		h.synced = append(h.synced, h.store.Feed(gvr, sink))
	}
	for gvr, sink := range h.known.Sinks() {
		h.synced = append(h.synced, h.store.Feed(gvr, sink))
	}
	h.synced = append(h.synced, h.store.Feed(quotav1alpha2.SchemeGroupVersion.WithResource("resourcequotas"), h.limits))
	return nil
}

// end ends the feeds, after the last write was decided.
func (h *webhooks) end() {
	if h != nil {
		h.stop()
		h.store.Wait()
	}
}

// ready returns nil once every kind of role and binding is loaded. A kind that the cluster does not have counts as loaded.
func (h *webhooks) ready() error {
	for _, synced := range h.synced {
		if err := synced(); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// handlers returns the handlers by path. The paths are those in configurations of existing installations, where there are such.
func (h *webhooks) handlers(mgr manager.Manager) map[string]webhook.Handler {
	cached, live := mgr.GetClient(), mgr.GetAPIReader()
	asked := &native{client: cached}
	names := &account.NativeNames{Client: h.client.RbacV1(), Now: time.Now}
	guard := &escalationWebhook{ready: h.ready, guard: &admission.Guard{
		Holdings: h.index, Known: h.known, Host: h.host, Named: names.Has, NamedGroup: names.HasGroup, Native: asked.may,
		Active:  administrators{live}.active,
		Ends:    &administratorEnds{live: live, client: cached, now: time.Now},
		InStore: func(ctx context.Context, name string) (string, error) { return workspace.InStore(ctx, live, name) },
	}}
	return map[string]webhook.Handler{
		pathGuard:         guard,
		pathUserDefaults:  user.NewDefaulter(time.Now, guard),
		pathUser:          &user.Validator{Users: cached},
		pathConfigDefault: &configsecret.Defaulter{Random: rand.Reader},
		pathConfig:        &configsecret.Validator{Secrets: live},
		pathProtector:     webhook.HandlerFunc(protect),
		pathKeep:          redactedFieldWebhook{},

		serviceaccount.Path:           guard,
		ksserviceaccount.InjectorPath: &ksserviceaccount.Injector{Client: cached, Live: live},
		resourcequota.Path:            resourcequota.NewValidator(cached, live, cached),

		installapproval.Path: &installapproval.Webhook{Client: cached, Live: live, Charts: charts(h.charts, h.client), Missing: guard.missingToApprove},

		controllercatalogue.ProtectPath:  &controllercatalogue.Protector{Live: live},
		controllerextension.DefaultPath:  controllerextension.Defaulter{},
		controllerextension.ValidatePath: &controllerextension.Validator{Live: live, Taken: ownGroup, May: asked.mayAs},
	}
}

// entries returns the webhooks to be registered at kube-apiserver.
func (h *webhooks) entries() []entry {
	if !h.counted {
		return fixed()
	}
	return entries(h.limits)
}

// indexes returns the indexes that the webhooks need in the manager's cache, whichever controllers run; nil for none.
func (h *webhooks) indexes() []controller {
	if h == nil {
		return nil
	}
	return []controller{{"validator.users", iam("User"), func(ctx context.Context,
		mgr manager.Manager) error {
		return user.Index(ctx, mgr.GetFieldIndexer())
	}}}
}

// add serves the webhooks with mgr, and reconciles their registration at kube-apiserver.
func (h *webhooks) add(mgr manager.Manager) error {
	h.register(h.handlers(mgr))
	expires := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ks_webhook_certificate_expiration_timestamp_seconds",
		Help: "When the serving certificate of the webhooks ends. It is renewed when a third of its life is left.",
	}, func() float64 { return float64(h.keeper.Expires().Unix()) })
	if err := metrics.Registry.Register(expires); err != nil {
		return fmt.Errorf("register the metric of the webhooks' certificate: %w", err)
	}
	for _, r := range []manager.Runnable{
		everywhere{func(ctx context.Context) error { h.keeper.Run(ctx); return nil }},
		&registrar{api: h.client.AdmissionregistrationV1(), entries: h.entries,
			clientConfig: h.clientConfig, changed: h.keeper.Changed(), limited: h.limits.Changed(), ready: h.ready, every: registrarEvery},
	} {
		if err := mgr.Add(r); err != nil {
			return fmt.Errorf("make ready to serve webhooks: %w", err)
		}
	}
	if err := mgr.AddReadyzCheck("webhooks", h.server.StartedChecker()); err != nil {
		return fmt.Errorf("add the readiness check of webhooks: %w", err)
	}
	if err := mgr.AddReadyzCheck("roles", func(*http.Request) error { return h.ready() }); err != nil {
		return fmt.Errorf("add the readiness check of roles: %w", err)
	}
	return nil
}

// register serves handlers by their paths. All together work on a few writes of one user at once. Writes that count against a quota are
// worked on together, the more at once the better: package resourcequota bounds them.
func (h *webhooks) register(handlers map[string]webhook.Handler) {
	turns := fairqueue.New()
	for path, handler := range handlers {
		var answers http.Handler = &webhook.Webhook{Handler: handler}
		if path != resourcequota.Path {
			answers = turns.Handler(answers)
		}
		h.server.Register(path, h.authenticated(answers))
	}
}

// everywhere is a Runnable that every replica runs, leader or not.
type everywhere struct {
	run func(context.Context) error
}

// Start implements manager.Runnable.
func (e everywhere) Start(ctx context.Context) error { return e.run(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }

func unmarshal(raw []byte, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return errors.New("the object can't be read")
	}
	return nil
}
