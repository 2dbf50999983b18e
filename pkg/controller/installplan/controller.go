package installplan

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	extensionsv1alpha1 "kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/grant"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
	"kapis.dev/ks-apiserver/pkg/helm"
)

const (
	// Name is the controller's name.
	Name = "installplan"
	// workers is how many plans are worked on at once: as many as operations may run.
	workers = 4
	// chartAgain is when a chart that could not be read is read again.
	chartAgain = time.Minute
)

// Helm runs operations on releases. helm.Executor does.
type Helm interface {
	Run(ctx context.Context, r helm.Request, event func(helm.Event)) (*helm.Result, error)
}

// Charts reads the packed chart of a version. source.Loader does.
type Charts interface {
	Load(ctx context.Context, v *v1alpha1.ExtensionVersion) ([]byte, error)
}

// Options are what the controller needs.
type Options struct {
	Helm     Helm
	Charts   Charts
	Settings Settings
	// May is nil for kube-apiserver's own answer.
	May grant.May
	// Member says that this cluster is a member of a fleet: it installs what its hub has brought, and of that the part for members.
	Member bool
	// Host is the name of the hub's own cluster, which hook images are told.
	Host string
	// As is nil for clients that impersonate at kube-apiserver.
	As As
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
		r.As = impersonated(mgr.GetConfig(), mgr.GetClient())
	}
	ofExtension := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return requestsFor(o.GetLabels()[v1alpha1.LabelExtension])
	})
	running, err := workloads(mgr)
	if err != nil {
		return err
	}
	r.Workloads = running
	b := builder.ControllerManagedBy(mgr).Named(Name).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&v1alpha1.InstallPlan{}).
		Watches(&v1alpha1.InstallPlan{}, handler.EnqueueRequestsFromMapFunc(r.waitingFor)).
		Watches(&v1alpha1.Extension{}, &handler.EnqueueRequestForObject{}).
		Watches(&v1alpha1.ExtensionVersion{}, ofExtension).
		Watches(&extensionsv1alpha1.JSBundle{}, ofExtension).
		Watches(&extensionsv1alpha1.APIService{}, ofExtension).
		Watches(&extensionsv1alpha1.ReverseProxy{}, ofExtension).
		Watches(&extensionsv1alpha1.ExtensionEntry{}, ofExtension)
	watchWorkloads(b, running, ofExtension)
	if !o.Member {
		b.Watches(&clusterv1alpha1.Cluster{}, handler.EnqueueRequestsFromMapFunc(agents{r}.concerned),
			builder.WithPredicates(predicate.LabelChangedPredicate{}))
	}
	return b.Complete(r)
}

func requestsFor(extension string) []reconcile.Request {
	if extension == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: extension}}}
}

// Reconciler does what InstallPlans say.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads without the cache.
	Client client.Client
	Live   client.Reader
	// Workloads reads the workloads of extensions.
	Workloads client.Reader
	Mapper    meta.RESTMapper
	// Config is the connection to the cluster that releases are applied by.
	Config *rest.Config
	Events events.EventRecorder
	Now    func() time.Time
	Options

	// failures are those of operations that may succeed later.
	failures retry.Failures

	mu sync.Mutex
	// revoked are the plans whose installers have no rights left from an operation that was interrupted.
	revoked map[string]bool
}

// Reconcile does what one plan says.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	plan := &v1alpha1.InstallPlan{}
	if err := r.Client.Get(ctx, req.NamespacedName, plan); err != nil {
		r.forget(req.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if r.Member && plan.Labels[clusterv1alpha1.LabelFleet] == "" { // nobody's who may have it installed
		return reconcile.Result{}, nil
	}
	if err := r.revokeLeftovers(ctx, plan.Name); err != nil {
		return reconcile.Result{}, err
	}
	w := &writer{client: r.Client, stored: plan.DeepCopy(), plan: plan}
	if err := (agents{r}).place(ctx, plan); err != nil {
		return reconcile.Result{}, err
	}
	var result reconcile.Result
	var err error
	switch {
	case !plan.DeletionTimestamp.IsZero():
		result, err = r.remove(ctx, w)
	case controllerutil.AddFinalizer(plan, v1alpha1.FinalizerInstallPlan):
	default:
		result, err = r.install(ctx, w)
	}
	if reason, ok := asWaiting(err); ok {
		say(&plan.Status.InstallationStatus, reason.condition, false, reason.reason, reason.message, r.Now())
		result, err = reconcile.Result{RequeueAfter: reason.again}, nil
	}
	if failed := w.write(ctx); failed != nil {
		return reconcile.Result{}, failed
	}
	return result, err
}

// revokeLeftovers takes away, once after the start, what an interrupted operation left.
func (r *Reconciler) revokeLeftovers(ctx context.Context, extension string) error {
	r.mu.Lock()
	done := r.revoked[extension]
	r.mu.Unlock()
	if done {
		return nil
	}
	if err := r.revoke(ctx, extension); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.revoked == nil {
		r.revoked = map[string]bool{}
	}
	r.revoked[extension] = true
	return nil
}

func (r *Reconciler) forget(plan string) {
	r.failures.Forget(plan)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.revoked, plan)
}

// waitingFor returns the other plans that wait for one: those that need it, and those that it needs and that are being deleted.
func (r *Reconciler) waitingFor(ctx context.Context, o client.Object) []reconcile.Request {
	plans := &v1alpha1.InstallPlanList{}
	if err := r.Client.List(ctx, plans); err != nil {
		klog.ErrorS(err, "list the plans that wait for another one")
		return nil
	}
	var out []reconcile.Request
	for i := range plans.Items {
		p := &plans.Items[i]
		waits := meta.IsStatusConditionFalse(p.Status.Conditions, v1alpha1.ConditionDependenciesMet) || !p.DeletionTimestamp.IsZero()
		if p.Name != o.GetName() && waits {
			out = append(out, requestsFor(p.Name)...)
		}
	}
	return out
}

// writer writes what has changed of a plan. It has no lock on the version: an operation takes minutes, in which people change what they ask
// for, and what came of it must not be lost by that.
type writer struct {
	client client.Client
	stored *v1alpha1.InstallPlan
	plan   *v1alpha1.InstallPlan
}

func (w *writer) write(ctx context.Context) error {
	if equality.Semantic.DeepEqual(w.stored.Status, w.plan.Status) && maps.Equal(w.stored.Annotations, w.plan.Annotations) &&
		equality.Semantic.DeepEqual(w.stored.Finalizers, w.plan.Finalizers) {
		return nil
	}
	changed := w.plan.DeepCopy()
	if err := w.client.Patch(ctx, changed, client.MergeFrom(w.stored)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write the state of the InstallPlan %s: %w", w.plan.Name, err))
	}
	w.stored = changed
	w.plan.ResourceVersion = changed.ResourceVersion
	return nil
}
