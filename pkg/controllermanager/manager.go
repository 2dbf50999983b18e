// Package controllermanager assembles ks-controller-manager from the configuration, the cluster and the list of controllers.
package controllermanager

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/controller/defaults"
	"kapis.dev/ks-apiserver/pkg/controller/mirror"
	"kapis.dev/ks-apiserver/pkg/controller/resourcequota"
	"kapis.dev/ks-apiserver/pkg/controller/user"
	"kapis.dev/ks-apiserver/pkg/informer"
	"kapis.dev/ks-apiserver/pkg/kube"
)

const (
	// Namespace is the namespace of the lease and of the first password.
	Namespace = "kubesphere-system"

	leaseName = "ks-controller-manager-leader-election"
	userAgent = "ks-controller-manager"
	// grace is how long running reconciles may take when the program stops.
	grace = 30 * time.Second
)

// Options are the options of the command line.
type Options struct {
	// LeaderElect makes this replica work only while it holds the lease.
	LeaderElect bool
	// LeaseDuration, RenewDeadline and RetryPeriod are the lease's times.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// MetricsAddress and HealthAddress are listening addresses; "0" for none.
	MetricsAddress, HealthAddress string
	// WebhookPort is the port of the webhooks; 0 serves none, and registers none at kube-apiserver. WebhookURL is the URL of that port for
	// kube-apiserver if this program runs outside the cluster; empty for the service in the cluster.
	WebhookPort int
	WebhookURL  string
	// WebhookClientCAFile has the authorities of kube-apiserver's client certificate, in PEM; without it the webhooks answer every caller.
	WebhookClientCAFile string
	// Controllers says which controllers run: "*", "name", "-name"; none means all.
	Controllers []string
	// AdminPassword, or the file AdminPasswordFile, is the first user's; see user.Admin.
	AdminPassword, AdminPasswordFile string
	// ShutdownDelay is how long everything goes on once a stop was requested, while /readyz fails: kube-apiserver needs this long to call the
	// webhooks of another replica.
	ShutdownDelay time.Duration
}

// Manager runs the controllers.
type Manager struct {
	mgr      manager.Manager
	hooks    *webhooks // nil for none
	delay    time.Duration
	stopping atomic.Bool
}

// New connects to the cluster and prepares what Run starts. Its error says in one line what is wrong.
func New(ctx context.Context, cfg *config.Config, o Options) (_ *Manager, err error) {
	if o.ShutdownDelay < 0 {
		return nil, fmt.Errorf("--shutdown-delay-duration is %v: it must not be negative", o.ShutdownDelay)
	}
	access := kube.Access{
		Kubeconfig: cfg.Kubernetes.Kubeconfig, Master: cfg.Kubernetes.Master,
		QPS: cfg.Kubernetes.QPS, Burst: cfg.Kubernetes.Burst, UserAgent: userAgent,
	}
	rc, err := access.Config()
	if err != nil {
		return nil, err
	}
	if err := free(ctx, o.MetricsAddress); err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	if _, err := kube.Reach(ctx, rc); err != nil {
		return nil, err
	}
	crlog.SetLogger(klog.Background())
	hooks, err := newWebhooks(ctx, rc, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			hooks.end()
		}
	}()
	mo := options(o)
	if hooks != nil {
		mo.WebhookServer = hooks.server
	}
	mgr, err := manager.New(rc, mo)
	if err != nil {
		return nil, fmt.Errorf("make ready to run controllers: %w", err)
	}
	if hooks != nil {
		mgr.GetWebhookServer() // adds it
	}
	return assemble(ctx, mgr, hooks, cfg, o)
}

// host returns the name of the host's Cluster, "" on a member.
func host(cfg *config.Config) string {
	if cfg.Multicluster.ClusterRole == "member" {
		return ""
	}
	return cfg.Multicluster.HostClusterName
}

// free returns an error if an address is in use: the manager listens there only once its controllers have started.
func free(ctx context.Context, address string) error {
	if address == "" || address == "0" {
		return nil
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return err // the error of package net names the address
	}
	return ln.Close()
}

// assemble adds the controllers to mgr, and the webhooks, if there are any.
func assemble(ctx context.Context, mgr manager.Manager, hooks *webhooks, cfg *config.Config, o Options) (*Manager, error) {
	lag, err := mirror.NewLag(metrics.Registry, time.Now)
	if err != nil {
		return nil, err
	}
	writer := &mirror.Writer{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("mirror")}
	a := cfg.Authentication
	certificates, err := kubeconfigs(cfg, mgr.GetConfig())
	if err != nil {
		return nil, err
	}
	routers, err := gateways(cfg)
	if err != nil {
		return nil, err
	}
	executor := newExecutor(cfg)
	list, err := choose(append(controllers(writer, lag, host(cfg), configured{
		unlock: time.Duration(a.AuthenticateRateLimiterDuration), retention: time.Duration(a.LoginHistoryRetentionPeriod),
		most: a.LoginHistoryMaximumEntries, configz: cfg.Configz(),
	}), slices.Concat(certificates, routers, extensions(cfg), catalogue(cfg, executor),
		appRepos(cfg), appStore(cfg), applicationReleases(cfg, executor), []controller{aggregated(cfg)})...), o.Controllers)
	if err != nil {
		return nil, err
	}
	if hooks != nil {
		hooks.host, hooks.charts, hooks.counted = host(cfg), chartSource(cfg), has(list, resourcequota.Name)
		if err := hooks.add(mgr); err != nil {
			return nil, err
		}
	}
	if err := mirror.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}
	s, err := newCRDGate(mgr, metrics.Registry, append(hooks.indexes(), list...))
	if err != nil {
		return nil, err
	}
	if _, err := s.try(ctx); err != nil {
		return nil, err
	}
	runnables := []manager.Runnable{s, &mirror.LegacyAdoption{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}}
	if host(cfg) != "" || o.AdminPassword != "" || o.AdminPasswordFile != "" { // the users of a member are its hub's
		runnables = append(runnables, &user.Admin{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: Namespace,
			Password: o.AdminPassword, PasswordFile: o.AdminPasswordFile,
			Hash: user.Hash, Random: rand.Reader, Now: time.Now,
		})
	}
	if host(cfg) == "" {
		runnables = append(runnables, &defaults.Runnable{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: Namespace})
	}
	for _, r := range runnables {
		if err := mgr.Add(r); err != nil {
			return nil, fmt.Errorf("make ready to run controllers: %w", err)
		}
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("add the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("caches", s.synced); err != nil {
		return nil, fmt.Errorf("add the readiness check: %w", err)
	}
	m := &Manager{mgr: mgr, hooks: hooks, delay: o.ShutdownDelay}
	if err := mgr.AddReadyzCheck("shutdown", m.fault); err != nil {
		return nil, fmt.Errorf("add the readiness check: %w", err)
	}
	return m, nil
}

// Run works until ctx ends and Options.ShutdownDelay has passed, which is a clean stop, or until an error occurs. The webhooks know of
// every change of rights for as long as they answer.
func (m *Manager) Run(ctx context.Context) error {
	defer m.hooks.end()
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		klog.InfoS("stopping: not ready any more, and still working", "delay", m.delay)
		m.stopping.Store(true)
		time.AfterFunc(m.delay, stop)
	})()
	if err := m.mgr.Start(work); err != nil {
		return fmt.Errorf("run controllers: %w", err)
	}
	return nil
}

// fault is the check of /readyz that fails once a stop was requested.
func (m *Manager) fault(*http.Request) error {
	if m.stopping.Load() {
		return errors.New("the program is stopping")
	}
	return nil
}

// options returns the manager's options. Of native roles and bindings the cache has only the mirror's own, and Secrets
// are not cached at all.
func options(o Options) manager.Options {
	own := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{iamv1beta1.LabelManagedBy: iamv1beta1.ManagedByController})}
	wait := grace
	return manager.Options{
		Scheme: kube.Scheme(),
		Logger: klog.Background(),
		Cache: cache.Options{
			DefaultTransform: transform(),
			NewInformer:      informer.NewShared,
			ByObject: map[client.Object]cache.ByObject{
				&rbacv1.ClusterRole{}: own, &rbacv1.ClusterRoleBinding{}: own, &rbacv1.Role{}: own, &rbacv1.RoleBinding{}: own,
			},
		},
		NewCache:                      newBoundedCache(fillWait, readyWait),
		Controller:                    ctrlconfig.Controller{CacheSyncTimeout: kindWait},
		Client:                        client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		LeaderElection:                o.LeaderElect,
		LeaderElectionNamespace:       Namespace,
		LeaderElectionID:              leaseName,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &o.LeaseDuration,
		RenewDeadline:                 &o.RenewDeadline,
		RetryPeriod:                   &o.RetryPeriod,
		Metrics:                       metricsserver.Options{BindAddress: o.MetricsAddress},
		HealthProbeBindAddress:        o.HealthAddress,
		GracefulShutdownTimeout:       &wait,
	}
}
