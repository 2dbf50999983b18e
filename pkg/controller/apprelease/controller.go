package apprelease

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/controller/enqueue"
	"kapis.dev/ks-apiserver/pkg/controller/grant"
	"kapis.dev/ks-apiserver/pkg/controller/patch"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
	"kapis.dev/ks-apiserver/pkg/helm"
)

const (
	// Name is the controller's name.
	Name = "apprelease"
	// workers is how many releases are worked on at once: more than have an operation, since the state of others is read meanwhile.
	workers = 4
	// maxMessage bounds the message of a status, in bytes.
	maxMessage = 4 << 10
)

// Helm runs operations on releases. helm.Executor does.
type Helm interface {
	Run(ctx context.Context, r helm.Request, event func(helm.Event)) (*helm.Result, error)
}

// Packages reads the package of a version: a chart, or YAML documents.
type Packages interface {
	Load(ctx context.Context, v *v2.ApplicationVersion) ([]byte, error)
}

// As returns a client that reads and writes objects as a user in some groups.
type As func(user string, groups []string) (dynamic.Interface, error)

// Sent reads the package that a hub has brought for a release.
type Sent interface {
	Load(ctx context.Context, s *release.Sent) ([]byte, error)
}

// Options are what the controller needs.
type Options struct {
	// Host is the name of this cluster. What is for others is brought to them by ks-apiserver.
	Host     string
	Helm     Helm
	Packages Packages
	// Sent is what a member of a fleet has, which installs what its hub sends and nothing else; nil elsewhere.
	Sent Sent
	// May and As are nil for those of kube-apiserver.
	May grant.May
	As  As
}

// Setup adds the controller to mgr.
func Setup(_ context.Context, mgr manager.Manager, o Options) error {
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Mapper: mgr.GetRESTMapper(), Config: mgr.GetConfig(),
		Events: mgr.GetEventRecorder(Name), Now: time.Now, Options: o,
	}
	if r.May == nil {
		r.May = grant.Reviewed(mgr.GetClient())
	}
	if r.As == nil {
		r.As = impersonated(mgr.GetConfig())
	}
	b := builder.ControllerManagedBy(mgr).Named(Name).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&v2.ApplicationRelease{})
	if r.Sent == nil {
		members := predicate.NewPredicateFuncs(func(c client.Object) bool { return c.GetName() != r.Host })
		b = b.Watches(&clusterv1alpha1.Cluster{}, enqueue.ListedByLabel(r.Client, &v2.ApplicationReleaseList{}, v2.LabelCluster),
			builder.WithPredicates(members))
		b = b.Watches(&corev1.Namespace{}, enqueue.ListedByLabel(r.Client, &v2.ApplicationReleaseList{}, v2.LabelNamespace),
			builder.WithPredicates(enqueue.OnDeletion()))
	}
	return b.Complete(r)
}

// impersonated returns clients that impersonate.
func impersonated(own *rest.Config) As {
	return func(user string, groups []string) (dynamic.Interface, error) {
		if user == "" {
			return nil, fmt.Errorf("connect as a user: no user is named")
		}
		cfg := rest.CopyConfig(own)
		cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
		return dynamic.NewForConfig(cfg)
	}
}

// Reconciler does what ApplicationReleases say.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads without the cache.
	Client client.Client
	Live   client.Reader
	Mapper meta.RESTMapper
	// Config is the connection to the cluster that releases are applied by.
	Config *rest.Config
	Events events.EventRecorder
	Now    func() time.Time
	Options

	// failures are those of operations that may succeed later, and writes what the cache may not have yet.
	failures retry.Failures
	writes   retry.Writes
	turns    turns
}

// Reconcile does what one release says.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	rel := &v2.ApplicationRelease{}
	if err := r.Client.Get(ctx, req.NamespacedName, rel); err != nil {
		r.failures.Forget(req.Name)
		r.writes.Forget(req.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if wait := r.writes.Wait(rel, r.Now()); wait > 0 { // by what it was, an operation would be done again, and its state written over
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	w := patch.New(r.Client, rel)
	elsewhere := release.IsElsewhere(rel, r.Host) && r.Sent == nil
	switch {
	case !rel.DeletionTimestamp.IsZero() && elsewhere:
		return reconcile.Result{}, r.removeElsewhere(ctx, w)
	case !rel.DeletionTimestamp.IsZero():
		return r.remove(ctx, w)
	case controllerutil.AddFinalizer(rel, v2.FinalizerRelease):
		return reconcile.Result{}, w.WriteFinalizers(ctx)
	}
	if elsewhere {
		if err := r.follow(ctx, rel); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{}, w.WriteStatus(ctx)
	}
	if ends, err := r.endWithNamespace(ctx, rel); err != nil || ends {
		return reconcile.Result{}, err
	}
	result, err := r.install(ctx, w)
	if failed := w.WriteStatus(ctx); failed != nil {
		return reconcile.Result{}, failed
	}
	r.writes.Note(rel, r.Now())
	return result, err
}

func (r *Reconciler) event(rel *v2.ApplicationRelease, kind, reason, message string) {
	const most = 1000 // of an event's note, in bytes
	r.Events.Eventf(rel, nil, kind, reason, "Install", "%s", helm.Clip(message, most))
}

// enter notes a state.
func (r *Reconciler) enter(s *v2.ApplicationReleaseStatus, state, message string) {
	message = helm.Clip(message, maxMessage)
	if s.State == state && s.Message == message {
		return
	}
	if s.State != state {
		now := metav1.NewTime(r.Now())
		s.LastUpdate = &now
	}
	s.State, s.Message = state, message
}

// writer writes the state of a release.
type writer = patch.Writer[*v2.ApplicationRelease]
