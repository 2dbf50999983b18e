package apprelease

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/controller/grant"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
	"kapis.dev/ks-apiserver/pkg/helm"
)

const (
	// Name is the controller's name.
	Name = "apprelease"
	// workers is how many releases are worked on at once: as many as operations may run.
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

// Options are what the controller needs.
type Options struct {
	// Host is the name of the host cluster, the only one that releases are installed in.
	Host     string
	Helm     Helm
	Packages Packages
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
	return builder.ControllerManagedBy(mgr).Named(Name).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&v2.ApplicationRelease{}).
		Complete(r)
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

	// failures are those of operations that may succeed later.
	failures retry.Failures
}

// Reconcile does what one release says.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	rel := &v2.ApplicationRelease{}
	if err := r.Client.Get(ctx, req.NamespacedName, rel); err != nil {
		r.failures.Forget(req.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	w := &writer{client: r.Client, stored: rel.DeepCopy(), release: rel}
	switch {
	case !rel.DeletionTimestamp.IsZero():
		return r.remove(ctx, w)
	case controllerutil.AddFinalizer(rel, v2.FinalizerRelease):
		return reconcile.Result{}, w.writeFinalizers(ctx)
	}
	result, err := r.install(ctx, w)
	if failed := w.write(ctx); failed != nil {
		return reconcile.Result{}, failed
	}
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

// writer writes what has changed of a release. It has no lock on the version: an operation takes minutes, in which people change what they
// ask for, and what came of it must not be lost by that.
type writer struct {
	client  client.Client
	stored  *v2.ApplicationRelease
	release *v2.ApplicationRelease
}

// write writes the status.
func (w *writer) write(ctx context.Context) error {
	if equality.Semantic.DeepEqual(w.stored.Status, w.release.Status) {
		return nil
	}
	changed := w.release.DeepCopy()
	if err := w.client.Status().Patch(ctx, changed, client.MergeFrom(w.stored)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write the state of the ApplicationRelease %s: %w", w.release.Name, err))
	}
	w.stored = changed
	w.release.ResourceVersion = changed.ResourceVersion
	return nil
}

// writeFinalizers writes the finalizers.
func (w *writer) writeFinalizers(ctx context.Context) error {
	changed := w.release.DeepCopy()
	if err := w.client.Patch(ctx, changed, client.MergeFromWithOptions(w.stored, client.MergeFromWithOptimisticLock{})); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write the finalizers of the ApplicationRelease %s: %w", w.release.Name, err))
	}
	return nil
}
