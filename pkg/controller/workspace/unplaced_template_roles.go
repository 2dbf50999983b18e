package workspace

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/builtinrole"
	"kapis.dev/ks-apiserver/pkg/controller/crd"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

// UnplacedName is the name of the controller of templates without a Workspace in this cluster.
const UnplacedName = "unplacedworkspace"

// SetupUnplaced adds to mgr the controller that gives templates which are not placed in this cluster their roles and the binding of
// their manager: without them the creator of a workspace could neither see it nor delete it. It runs on the host, which has the templates.
func SetupUnplaced(_ context.Context, mgr manager.Manager) error {
	r := &Unplaced{&Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(UnplacedName), Now: time.Now}}
	// A Workspace that comes has its own controller.
	goes := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
	b := builder.ControllerManagedBy(mgr).Named(UnplacedName).
		For(&tenantv1beta1.WorkspaceTemplate{}).
		Watches(&tenantv1beta1.Workspace{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(goes))
	return watch(b, r.patterned, r.managedBy).Complete(r)
}

// Unplaced reconciles the roles and the manager of templates without a Workspace in this cluster. A Workspace that exists is the
// Reconciler's, whichever template it has: a template decides nothing about it here (S65).
type Unplaced struct{ *Reconciler }

// Reconcile updates the roles and the manager's binding of one template.
func (r *Unplaced) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	t := &tenantv1beta1.WorkspaceTemplate{}
	err := r.Client.Get(ctx, req.NamespacedName, t)
	var again time.Duration
	switch {
	case apierrors.IsNotFound(err):
		again, err = r.sweep(ctx, req.Name)
	case err != nil:
		err = fmt.Errorf("read workspace template %q: %w", req.Name, err)
	case t.DeletionTimestamp.IsZero():
		err = r.sync(ctx, t)
	}
	return retry.OnMissingKind(again, err)
}

func (r *Unplaced) sync(ctx context.Context, t *tenantv1beta1.WorkspaceTemplate) error {
	w := &tenantv1beta1.Workspace{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(t), w); err == nil {
		return nil
	}
	foreign, err := r.foreign(ctx, t)
	if err != nil {
		return err
	}
	if foreign != nil {
		return r.warn(t, foreign)
	}
	w = &tenantv1beta1.Workspace{
		ObjectMeta: metav1.ObjectMeta{Name: t.Name, Labels: t.Spec.Template.ObjectMeta.Labels}, Spec: t.Spec.Template.Spec,
	}
	wrong, err := r.complete(ctx, w)
	if err != nil {
		return err
	}
	return r.warn(t, wrong)
}

// errPlaced says that there is a Workspace, which decides by itself.
var errPlaced = errors.New("there is a workspace of this name")

// foreign returns why nobody gets a right by the template, nil if its manager does. It reads without the cache: a Workspace that is new
// is its own manager's; while the definition of Workspaces is gone, those that it had will come back; and namespaces with the label are
// of a workspace that is not this template's, which is in no cluster here.
func (r *Unplaced) foreign(ctx context.Context, t *tenantv1beta1.WorkspaceTemplate) (why, err error) {
	err = r.Live.Get(ctx, client.ObjectKeyFromObject(t), &tenantv1beta1.Workspace{})
	if err == nil {
		return errPlaced, nil
	}
	if !crd.Missing(err) {
		return nil, fmt.Errorf("look for workspace %q: %w", t.Name, err)
	}
	if going, err := crd.Going(ctx, r.Live, definition); err != nil || going {
		return errPlaced, err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.Live.List(ctx, list, client.MatchingLabels{tenantv1beta1.LabelWorkspace: t.Name}, client.Limit(1)); err != nil {
		return nil, fmt.Errorf("list the namespaces of workspace %q: %w", t.Name, err)
	}
	if len(list.Items) > 0 {
		return fmt.Errorf("the namespace %q has the label of this workspace, which is not placed in this cluster: its manager gets no rights"+
			" there until the label is removed", list.Items[0].Name), nil
	}
	return nil, nil
}

// warn records an event about what a user has to correct.
func (r *Unplaced) warn(t *tenantv1beta1.WorkspaceTemplate, wrong error) error {
	if wrong != nil && !errors.Is(wrong, errPlaced) {
		r.Events.Eventf(t, nil, corev1.EventTypeWarning, "Incomplete", "Complete", "%v", wrong)
	}
	return nil
}

// managedBy returns the templates whose manager is a user.
func (r *Unplaced) managedBy(ctx context.Context, user client.Object) []reconcile.Request {
	return r.list(ctx, func(t *tenantv1beta1.WorkspaceTemplate) bool { return t.Spec.Template.Spec.Manager == user.GetName() })
}

// patterned returns the templates that a pattern of roles may concern.
func (r *Unplaced) patterned(ctx context.Context, o client.Object) []reconcile.Request {
	if builtinrole.KindOf(o.(*iamv1beta1.BuiltinRole)) == iamv1beta1.KindRole {
		return nil
	}
	return r.list(ctx, func(*tenantv1beta1.WorkspaceTemplate) bool { return true })
}

func (r *Unplaced) list(ctx context.Context, concerns func(*tenantv1beta1.WorkspaceTemplate) bool) []reconcile.Request {
	all := &tenantv1beta1.WorkspaceTemplateList{}
	if err := r.Client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		klog.ErrorS(err, "Can't list the workspace templates that a change may concern")
		return nil
	}
	var out []reconcile.Request
	for i := range all.Items {
		if concerns(&all.Items[i]) {
			out = append(out, request(all.Items[i].Name))
		}
	}
	return out
}
