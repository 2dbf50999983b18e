package installplan

import (
	"context"
	"sync"
	"time"

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
	"kapis.dev/ks-apiserver/pkg/controller/enqueue"
	"kapis.dev/ks-apiserver/pkg/controller/extensionrelease"
	"kapis.dev/ks-apiserver/pkg/controller/installer"
	"kapis.dev/ks-apiserver/pkg/controller/patch"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
	"kapis.dev/ks-apiserver/pkg/helm"
)

const (
	// Name is the controller's name.
	Name = "installplan"
	// workers is how many plans are worked on at once: as many as operations may run.
	workers = 4
	// chartTimeout bounds the read of a chart: a repository that sends it byte by byte would keep a worker. chartAgain is when one that could
	// not be read is read again.
	chartTimeout, chartAgain = 2 * time.Minute, time.Minute
)

// Helm runs operations on releases. helm.Executor does.
type Helm interface {
	Run(ctx context.Context, r helm.Request, event func(helm.Event)) (*helm.Result, error)
}

// Charts reads the packed chart of a version. source.Loader does.
type Charts interface {
	Load(ctx context.Context, v *v1alpha1.ExtensionVersion) ([]byte, error)
}

// Settings are the values that the platform sets in every release.
type Settings = extensionrelease.Settings

// Options are what the controller needs.
type Options struct {
	Helm     Helm
	Charts   Charts
	Settings Settings
	// May is nil for kube-apiserver's own answer.
	May installer.May
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
	if r.As == nil {
		r.As = impersonated(mgr.GetConfig(), mgr.GetClient())
	}
	ofExtension := enqueue.ByLabel(v1alpha1.LabelExtension)
	running, err := extensionrelease.Workloads(mgr)
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
	extensionrelease.WatchWorkloads(b, running, ofExtension)
	if !o.Member {
		b.Watches(&clusterv1alpha1.Cluster{}, handler.EnqueueRequestsFromMapFunc(agents{r}.concerned),
			builder.WithPredicates(predicate.LabelChangedPredicate{}))
	}
	return b.Complete(r)
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

	// onHub says that this is the reconciler of agents in the hub's own cluster, which hubAgents is of the hub's.
	onHub     bool
	mu        sync.Mutex // of hubAgents
	hubAgents *Reconciler

	// failures are those of operations that may succeed later, and writes what the cache may not have yet.
	failures retry.Failures
	writes   retry.Writes

	// adopted has the UIDs of the plans whose releases' records are noted, by their names.
	adopted sync.Map
	// unusable are charts that nothing can be done with, as *unusable, by the chartOf them.
	unusable sync.Map
	// revoked are the plans whose installers have no rights left from an operation that was interrupted, by their names.
	revoked sync.Map
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
	if wait := r.writes.Wait(plan, r.Now()); wait > 0 { // by what it was, an operation would be done again, and its state written over
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.installers().RevokeLeftovers(ctx, plan.Name); err != nil {
		return reconcile.Result{}, err
	}
	w := patch.New(r.Client, plan)
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
	again, err := noted(&plan.Status.InstallationStatus, err, r.Now())
	result.RequeueAfter = sooner(result.RequeueAfter, again)
	if failed := w.Write(ctx); failed != nil {
		return reconcile.Result{}, failed
	}
	r.writes.Note(plan, r.Now())
	return result, err
}

// writer writes the state of a plan.
type writer = patch.Writer[*v1alpha1.InstallPlan]

// installers gives installers rights.
func (r *Reconciler) installers() installer.Installers {
	return installer.Installers{Client: r.Client, Live: r.Live, May: r.May, Revoked: &r.revoked}
}

func (r *Reconciler) forget(plan string) {
	r.failures.Forget(plan)
	r.writes.Forget(plan)
	r.revoked.Delete(plan)
	r.adopted.Delete(plan)
	r.forgetCharts(plan)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hubAgents != nil {
		r.hubAgents.failures.Forget(plan)
		r.hubAgents.adopted.Delete(plan)
		r.hubAgents.forgetCharts(plan)
	}
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
			out = append(out, enqueue.Named(p.Name)...)
		}
	}
	return out
}
