// Package workspacetemplate reconciles the Workspaces of this cluster with their templates: they exist if the placement
// names this cluster, have the names and the manager of the template, and are deleted with it.
//
// A Workspace has no owner reference to its template. With the definition of templates all templates are deleted, and
// Kubernetes would delete the Workspaces, and their controller the namespaces.
package workspacetemplate

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/crd"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

const (
	// Name is the controller's name.
	Name = "workspacetemplate"
	// AnnotationTemplate names the template of a Workspace that a template made or adopted. It is for users.
	AnnotationTemplate = "kapis.dev/workspacetemplate"
	// annotationTold is what the template has written about the Workspace's namespaces at its deletion.
	annotationTold = "kapis.dev/workspacetemplate-deletion-propagation"
	// ConditionReady is true while the Workspace of this cluster is as the template wants it.
	ConditionReady = "Ready"

	definition          = "workspacetemplates.tenant.kubesphere.io"
	workspaceDefinition = "workspaces.tenant.kubesphere.io"
	workers             = 4
	// goingRetry is the pause before a Workspace that is being deleted is looked for again.
	goingRetry = 2 * time.Second
)

// DeleteHeld deletes the roles, bindings, groups and quotas of a workspace. live reads without a cache.
type DeleteHeld func(ctx context.Context, c client.Client, live client.Reader, workspace string) error

// Setup adds the controller to mgr. This cluster's Cluster is called host.
func Setup(_ context.Context, mgr manager.Manager, host string, deleteHeld DeleteHeld) error {
	r := &Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(Name), Host: host, DeleteHeld: deleteHeld}
	isHost := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == host })
	return builder.ControllerManagedBy(mgr).Named(Name).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&tenantv1beta1.WorkspaceTemplate{}).
		Watches(&tenantv1beta1.Workspace{}, &handler.EnqueueRequestForObject{}).
		Watches(&clusterv1alpha1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.selecting),
			builder.WithPredicates(isHost, predicate.LabelChangedPredicate{})).
		Complete(r)
}

// Reconciler reconciles the Workspaces of templates.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads without the cache.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	// Host is the name of this cluster.
	Host string
	// DeleteHeld deletes what a template without a Workspace in this cluster has here.
	DeleteHeld DeleteHeld
}

// Reconcile updates the Workspace of one template.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	t := &tenantv1beta1.WorkspaceTemplate{}
	if err := r.Client.Get(ctx, req.NamespacedName, t); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var err error
	var again time.Duration
	if t.DeletionTimestamp.IsZero() {
		err = r.sync(ctx, t)
	} else {
		again, err = r.finalize(ctx, t)
	}
	return retry.OnMissingKind(again, err)
}

func (r *Reconciler) sync(ctx context.Context, t *tenantv1beta1.WorkspaceTemplate) error {
	if err := r.hold(ctx, t); err != nil {
		return err
	}
	w := &tenantv1beta1.Workspace{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(t), w)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read workspace %q: %w", t.Name, err)
	}
	exists := err == nil
	here, unknown, err := r.placed(ctx, t, w)
	if err != nil {
		// Only an edit of the template can repair this. Until then the Workspace stays as it is.
		r.Events.Eventf(t, nil, corev1.EventTypeWarning, "PlacementUnreadable", "Place", "%v", err)
		return r.tell(ctx, t, metav1.ConditionFalse, "PlacementUnreadable", err.Error())
	}
	stays := unknown && exists && made(t, w) && w.DeletionTimestamp.IsZero()
	switch {
	case here && exists && !made(t, w):
		return r.tell(ctx, t, metav1.ConditionFalse, "WorkspaceOfAnother",
			"There is a workspace of this name, which this template did not make: it stays as it is. "+
				"Who may delete any workspace hands it over by its annotation "+tenantv1beta1.AnnotationTemplateUID+", the uid of this template.")
	case !here && !stays:
		return r.displace(ctx, t, w, exists)
	case !exists:
		return r.create(ctx, t)
	case !w.DeletionTimestamp.IsZero():
		return r.tell(ctx, t, metav1.ConditionFalse, "WorkspaceGoing", "The workspace is being deleted. It will be created again.")
	}
	before := w.DeepCopy()
	if fill(w, t); !equality.Semantic.DeepEqual(before, w) {
		if err := r.Client.Patch(ctx, w, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("write workspace %q: %w", w.Name, err)
		}
	}
	if stays {
		return r.tell(ctx, t, metav1.ConditionFalse, "ClusterUnknown", fmt.Sprintf("The workspace stays in this cluster, although"+
			" spec.placement.clusterSelector does not select it: the Cluster %q is gone, or was created after the workspace, perhaps without"+
			" its former labels. Label it, or name the clusters in spec.placement.clusters.", r.Host))
	}
	return r.tell(ctx, t, metav1.ConditionTrue, "Placed", "The workspace is in this cluster.")
}

// hold adds the finalizer, with which the Workspace is deleted before its template, and records that it was added here.
func (r *Reconciler) hold(ctx context.Context, t *tenantv1beta1.WorkspaceTemplate) error {
	before := t.DeepCopy()
	if !controllerutil.AddFinalizer(t, tenantv1beta1.FinalizerCascadingDeletion) {
		return nil
	}
	set(&t.Annotations, tenantv1beta1.AnnotationTemplateHeld, "true")
	if err := r.Client.Patch(ctx, t, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("hold workspace template %q: %w", t.Name, err)
	}
	return nil
}

func (r *Reconciler) create(ctx context.Context, t *tenantv1beta1.WorkspaceTemplate) error {
	w := &tenantv1beta1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: t.Name}}
	fill(w, t)
	if err := r.Client.Create(ctx, w); err != nil {
		return fmt.Errorf("make workspace %q: %w", w.Name, err)
	}
	return r.tell(ctx, t, metav1.ConditionTrue, "Placed", "The workspace is in this cluster.")
}

// displace deletes the Workspace of a template that is not placed here (any more). Its namespaces stay: an edit of a
// placement is no request to delete them.
func (r *Reconciler) displace(ctx context.Context, t *tenantv1beta1.WorkspaceTemplate, w *tenantv1beta1.Workspace, exists bool) error {
	if exists && made(t, w) {
		if err := r.remove(ctx, w, string(metav1.DeletePropagationOrphan)); err != nil {
			return err
		}
		r.Events.Eventf(t, nil, corev1.EventTypeNormal, "WorkspaceRemoved", "Place",
			"The workspace is no longer placed in this cluster. Its namespaces stay.")
	}
	return r.tell(ctx, t, metav1.ConditionFalse, "NotPlacedHere", fmt.Sprintf("spec.placement does not include the cluster %q: it has no"+
		" namespaces here. The workspace's roles and its manager's rights are here all the same.", r.Host))
}

// placed reports whether the template's placement includes this cluster. A cluster without an object has no labels. unknown says that a
// selector does not match, and that this decides nothing about the Workspace w: with the definition of Clusters the Cluster is deleted, and
// the one that is created when the definition is back does not have the labels by which w was placed.
func (r *Reconciler) placed(ctx context.Context, t *tenantv1beta1.WorkspaceTemplate, w *tenantv1beta1.Workspace) (here, unknown bool,
	err error) {
	p := t.Spec.Placement
	if len(p.Clusters) > 0 {
		return slices.ContainsFunc(p.Clusters, func(c tenantv1beta1.PlacementCluster) bool { return c.Name == r.Host }), false, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(p.ClusterSelector)
	if err != nil {
		return false, false, fmt.Errorf("read spec.placement.clusterSelector: %w", err)
	}
	c := &clusterv1alpha1.Cluster{}
	err = r.Client.Get(ctx, types.NamespacedName{Name: r.Host}, c)
	if client.IgnoreNotFound(err) != nil {
		return false, false, fmt.Errorf("read cluster %q: %w", r.Host, err)
	}
	here = selector.Matches(labels.Set(c.Labels))
	return here, !here && p.ClusterSelector != nil && (err != nil || w.CreationTimestamp.Before(&c.CreationTimestamp)), nil
}

// finalize deletes the Workspace that the template made, and then removes the template's finalizer. The Workspace is read without the
// cache, which may lack one that was just made: it would stay for good. It is looked for again after a while, too, since the end of one
// that the cache never had is no event.
func (r *Reconciler) finalize(ctx context.Context, t *tenantv1beta1.WorkspaceTemplate) (again time.Duration, err error) {
	if !controllerutil.ContainsFinalizer(t, tenantv1beta1.FinalizerCascadingDeletion) {
		return 0, nil
	}
	going, err := crd.Going(ctx, r.Live, definition)
	if err != nil {
		return 0, err
	}
	w := &tenantv1beta1.Workspace{}
	err = r.Live.Get(ctx, client.ObjectKeyFromObject(t), w)
	switch {
	case err == nil && !going && made(t, w):
		return goingRetry, r.remove(ctx, w, t.Annotations[tenantv1beta1.AnnotationDeletionPropagation])
	case err != nil && !crd.Missing(err):
		return 0, fmt.Errorf("read workspace %q: %w", t.Name, err)
	case err != nil && !going:
		if err := r.endRights(ctx, t.Name); err != nil {
			return 0, err
		}
	}
	before := t.DeepCopy()
	controllerutil.RemoveFinalizer(t, tenantv1beta1.FinalizerCascadingDeletion)
	err = r.Client.Patch(ctx, t, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("let workspace template %q go: %w", t.Name, err)
	}
	return 0, nil
}

// endRights deletes the roles and bindings of a template that has no Workspace in this cluster, before a new template can have its name.
// While the definition of Workspaces is gone, those may come back and need them.
func (r *Reconciler) endRights(ctx context.Context, name string) error {
	if gone, err := crd.Going(ctx, r.Live, workspaceDefinition); err != nil || gone {
		return err
	}
	if err := r.DeleteHeld(ctx, r.Client, r.Live, name); err != nil {
		return fmt.Errorf("end the rights of workspace %q: %w", name, err)
	}
	return nil
}

// remove deletes a Workspace, and first writes into it what happens to its namespaces.
func (r *Reconciler) remove(ctx context.Context, w *tenantv1beta1.Workspace, propagation string) error {
	if !w.DeletionTimestamp.IsZero() {
		return nil
	}
	if w.Annotations[tenantv1beta1.AnnotationDeletionPropagation] != propagation {
		before := w.DeepCopy()
		set(&w.Annotations, tenantv1beta1.AnnotationDeletionPropagation, propagation)
		if err := r.Client.Patch(ctx, w, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("say what becomes of the namespaces of workspace %q: %w", w.Name, err)
		}
	}
	if err := r.Client.Delete(ctx, w, client.Preconditions{UID: &w.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete workspace %q: %w", w.Name, err)
	}
	return nil
}

// tell writes the condition if it changes.
func (r *Reconciler) tell(ctx context.Context, t *tenantv1beta1.WorkspaceTemplate, status metav1.ConditionStatus, reason,
	message string) error {
	before := t.DeepCopy()
	if !meta.SetStatusCondition(&t.Status.Conditions, metav1.Condition{
		Type: ConditionReady, Status: status, Reason: reason, Message: message, ObservedGeneration: t.Generation,
	}) {
		return nil
	}
	err := r.Client.Status().Patch(ctx, t, client.MergeFrom(before))
	// The definition of an older installation has no such field, and the template may be gone.
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of workspace template %q: %w", t.Name, err)
	}
	return nil
}

// selecting returns the templates that select clusters by label.
func (r *Reconciler) selecting(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &tenantv1beta1.WorkspaceTemplateList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		klog.ErrorS(err, "Can't list the workspace templates that a cluster's labels may place here")
		return nil
	}
	var out []reconcile.Request
	_ = meta.EachListItem(list, func(o runtime.Object) error { // the function returns no error
		if t := o.(*tenantv1beta1.WorkspaceTemplate); t.Spec.Placement.ClusterSelector != nil && len(t.Spec.Placement.Clusters) == 0 {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(t)})
		}
		return nil
	})
	return out
}
