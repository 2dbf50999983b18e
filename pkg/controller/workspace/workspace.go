// Package workspace reconciles Workspaces: their roles, the manager's binding, and at their deletion the namespaces, roles and
// bindings. A workspace without a template is reconciled too: on a member cluster, workspaces have none.
//
// A namespace, a role and a binding belong to a workspace only by its label, never by an owner reference: with the definition of
// Workspaces all workspaces are deleted, and Kubernetes' garbage collector would delete what they own (U50, S74).
package workspace

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/enqueue"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

const (
	// Name is the controller's name.
	Name = "workspace"
	// ConditionReady is true while the workspace has its roles, and its manager the right to manage it.
	ConditionReady = "Ready"
	// AnnotationManager marks the binding of the manager; its value is the workspace.
	AnnotationManager = "kapis.dev/manager-of"

	definition         = "workspaces.tenant.kubesphere.io"
	templateDefinition = "workspacetemplates.tenant.kubesphere.io"
	// managerField is the index of workspaces by their manager.
	managerField = "kapis.dev/manager"
	workers      = 4
	// goingRetry is the pause before namespaces that have to be deleted first are counted again.
	goingRetry = 2 * time.Second
)

// Setup adds the controller to mgr.
func Setup(ctx context.Context, mgr manager.Manager) error {
	r := &Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(Name), Now: time.Now}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &tenantv1beta1.Workspace{}, managerField, managerOf); err != nil {
		return fmt.Errorf("index workspaces by manager: %w", err)
	}
	return watch(builder.ControllerManagedBy(mgr).Named(Name).For(&tenantv1beta1.Workspace{}), r.patterned, r.managedBy).Complete(r)
}

// watch adds what the roles and the manager of a workspace depend on, wherever it is placed. patterned returns the workspaces that a
// pattern of roles may concern, and managedBy those of a user.
func watch(b *builder.Builder, patterned, managedBy handler.MapFunc) *builder.Builder {
	labelled := enqueue.ByLabel(tenantv1beta1.LabelWorkspace) // at the start this finds the objects of missing workspaces
	return b.WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Watches(&iamv1beta1.WorkspaceRole{}, labelled).
		Watches(&iamv1beta1.WorkspaceRoleBinding{}, labelled).
		Watches(&iamv1beta1.BuiltinRole{}, handler.EnqueueRequestsFromMapFunc(patterned), builder.WithPredicates(enqueue.AfterStart())).
		Watches(&iamv1beta1.User{}, handler.EnqueueRequestsFromMapFunc(managedBy),
			builder.WithPredicates(enqueue.AfterStart(), enqueue.OnCreationOrDeletion()))
}

// Reconciler reconciles Workspaces.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads without the cache.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	// Now is the clock.
	Now func() time.Time
}

// Reconcile updates one workspace.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	w := &tenantv1beta1.Workspace{}
	err := r.Client.Get(ctx, req.NamespacedName, w)
	var again time.Duration
	switch {
	case apierrors.IsNotFound(err):
		again, err = r.sweep(ctx, req.Name)
	case err != nil:
		err = fmt.Errorf("read workspace %q: %w", req.Name, err)
	case w.DeletionTimestamp.IsZero():
		err = r.sync(ctx, w)
	default:
		again, err = r.finalize(ctx, w)
	}
	return retry.OnMissingKind(again, err)
}

func (r *Reconciler) sync(ctx context.Context, w *tenantv1beta1.Workspace) error {
	before := w.DeepCopy()
	if controllerutil.AddFinalizer(w, tenantv1beta1.FinalizerCascadingDeletion) {
		if err := r.Client.Patch(ctx, w, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("hold workspace %q: %w", w.Name, err)
		}
	}
	wrong, err := r.complete(ctx, w)
	if err != nil {
		return err
	}
	return r.tell(ctx, w, wrong)
}

// complete gives a workspace its roles, and its manager the right to manage it. wrong is what a user has to correct.
func (r *Reconciler) complete(ctx context.Context, w *tenantv1beta1.Workspace) (wrong, err error) {
	lacks, err := r.roles(ctx, w)
	if err != nil {
		return nil, err
	}
	managed, err := r.manager(ctx, w)
	if err != nil {
		return nil, err
	}
	return errors.Join(lacks, managed), nil
}

// tell writes the condition if it changes; wrong is the error, nil for none.
func (r *Reconciler) tell(ctx context.Context, w *tenantv1beta1.Workspace, wrong error) error {
	c := metav1.Condition{Type: ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready", Message: "The workspace has its roles.",
		ObservedGeneration: w.Generation}
	if wrong != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Incomplete", wrong.Error()
	}
	before := w.DeepCopy()
	if !meta.SetStatusCondition(&w.Status.Conditions, c) {
		return nil
	}
	if wrong != nil {
		r.Events.Eventf(w, nil, corev1.EventTypeWarning, c.Reason, "Complete", "%s", c.Message)
	}
	err := r.Client.Status().Patch(ctx, w, client.MergeFrom(before))
	// The definition of an older installation has no such field, and the workspace may be gone.
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of workspace %q: %w", w.Name, err)
	}
	return nil
}
