// Package namespace reconciles the built-in roles of a managed Namespace and the right of its creator, and makes sure that no
// owner deletes the namespace with it. The system's own namespaces join the system's workspace.
//
// The annotation kubesphere.io/creator is written by clients. It counts once, when the namespace gets its roles for the first
// time, in an existing workspace, and for an existing user. The admission policy creator.namespaces.kapis.dev makes sure that
// it names the user who really created the namespace, and is not changed afterwards.
package namespace

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/builtinrole"
	"kapis.dev/ks-apiserver/pkg/controller/crd"
	"kapis.dev/ks-apiserver/pkg/controller/enqueue"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

const (
	// Name is the controller's name.
	Name = "namespace"
	// AnnotationInitialized says, with the value "true", that the namespace got its first roles, and its creator the right that they were
	// due. This happens once: a creator whose binding was removed, or who has left, gets none. Neither does the creator of a namespace
	// that was first seen in a workspace and not managed: otherwise a user who was removed from the workspace would be back when the
	// namespace becomes managed (S67). A namespace of the system has joined the system's workspace when it is there.
	AnnotationInitialized = "kapis.dev/initialized"

	// workspaceField is this controller's index of namespaces by workspace.
	workspaceField = "namespace.kapis.dev/workspace"
	workers        = 4
)

// Setup adds the controller to mgr.
func Setup(ctx context.Context, mgr manager.Manager) error {
	r := &Reconciler{Client: mgr.GetClient(), Events: mgr.GetEventRecorder(Name)}
	if err := mgr.GetFieldIndexer().IndexField(ctx, empty(""), workspaceField, workspaceOf); err != nil {
		return fmt.Errorf("index namespaces by workspace: %w", err)
	}
	return builder.ControllerManagedBy(mgr).Named(Name).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&corev1.Namespace{}, builder.OnlyMetadata).
		Watches(&iamv1beta1.Role{}, handler.EnqueueRequestsFromMapFunc(namespaceOf), builder.WithPredicates(enqueue.AfterStart())).
		Watches(&iamv1beta1.BuiltinRole{}, handler.EnqueueRequestsFromMapFunc(r.patterned), builder.WithPredicates(enqueue.AfterStart())).
		Watches(&tenantv1beta1.Workspace{}, handler.EnqueueRequestsFromMapFunc(r.inWorkspace),
			builder.WithPredicates(enqueue.AfterStart(), enqueue.OnCreationOrDeletion())).
		Complete(r)
}

// Reconciler reconciles Namespaces. It reads and writes only their metadata.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	Events events.EventRecorder
}

// Reconcile updates one namespace.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ns := empty(req.Name)
	err := r.Client.Get(ctx, req.NamespacedName, ns)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	if err == nil {
		err = r.sync(ctx, ns)
	}
	if terminating(err) {
		return reconcile.Result{}, nil
	}
	return retry.OnMissingKind(0, err)
}

func (r *Reconciler) sync(ctx context.Context, ns *metav1.PartialObjectMetadata) error {
	if err := r.free(ctx, ns); err != nil || !ns.DeletionTimestamp.IsZero() {
		return err
	}
	if err := r.joinSystem(ctx, ns); err != nil {
		return err
	}
	workspace, err := r.workspace(ctx, ns)
	if err != nil || workspace == unknown {
		return err
	}
	if ns.Labels[tenantv1beta1.LabelManaged] != "true" {
		if workspace == found && ns.Annotations[tenantv1beta1.AnnotationCreator] != "" {
			return r.settle(ctx, ns)
		}
		return nil
	}
	return r.roles(ctx, ns, workspace == found)
}

// free removes what older installations put on namespaces: an owner, with which Kubernetes deletes the namespace when
// the owner's definition is deleted (U50), and a finalizer that no controller removes any more.
func (r *Reconciler) free(ctx context.Context, ns *metav1.PartialObjectMetadata) error {
	before := ns.DeepCopy()
	disowned := crd.DropWorkspaceOwners(ns)
	if freed := controllerutil.RemoveFinalizer(ns, tenantv1beta1.FinalizerCascadingDeletion); !freed && !disowned {
		return nil
	}
	return r.patch(ctx, ns, before)
}

func (r *Reconciler) patch(ctx context.Context, ns, before *metav1.PartialObjectMetadata) error {
	err := r.Client.Patch(ctx, ns, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write namespace %q: %w", ns.Name, err)
	}
	return nil
}

// membership says whether the workspace in a namespace's label exists.
type membership int

const (
	none    membership = iota // no workspace
	found                     // an existing workspace
	unknown                   // one that does not exist, or is being deleted
)

// workspace reports whether the workspace in the label exists. In a missing workspace no one has rights, and so the
// namespace gets no roles either.
func (r *Reconciler) workspace(ctx context.Context, ns *metav1.PartialObjectMetadata) (membership, error) {
	name := ns.Labels[tenantv1beta1.LabelWorkspace]
	if name == "" {
		return none, nil
	}
	w := &tenantv1beta1.Workspace{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: name}, w)
	if client.IgnoreNotFound(err) != nil {
		return none, fmt.Errorf("read workspace %q: %w", name, err)
	}
	if err == nil && w.DeletionTimestamp.IsZero() {
		return found, nil
	}
	r.Events.Eventf(ns, nil, corev1.EventTypeWarning, "WorkspaceNotFound", "Join",
		"The label %s names %q, which is no workspace. Nobody has a right here by it.", tenantv1beta1.LabelWorkspace, name)
	return unknown, nil
}

func terminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// empty returns a Namespace of which only the metadata is read.
func empty(name string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return o
}

// namespaceOf returns the namespace of a role that was made from a pattern.
func namespaceOf(_ context.Context, role client.Object) []reconcile.Request {
	if role.GetAnnotations()[builtinrole.AnnotationPattern] == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: role.GetNamespace()}}}
}

// workspaceOf is the index function of workspaceField; "" are the namespaces in no workspace.
func workspaceOf(o client.Object) []string {
	return []string{o.GetLabels()[tenantv1beta1.LabelWorkspace]}
}

// inWorkspace returns the namespaces of a workspace, and of the system's also those that may join it.
func (r *Reconciler) inWorkspace(ctx context.Context, w client.Object) []reconcile.Request {
	in := r.list(ctx, client.MatchingFields{workspaceField: w.GetName()})
	if w.GetName() != tenantv1beta1.SystemWorkspace {
		return in
	}
	for _, of := range r.list(ctx, client.MatchingFields{workspaceField: ""}) {
		if tenantv1beta1.IsSystemNamespace(of.Name) {
			in = append(in, of)
		}
	}
	return in
}

// patterned returns the namespaces that a pattern of roles may concern.
func (r *Reconciler) patterned(ctx context.Context, o client.Object) []reconcile.Request {
	if builtinrole.KindOf(o.(*iamv1beta1.BuiltinRole)) == iamv1beta1.KindWorkspaceRole {
		return nil
	}
	return r.list(ctx, client.MatchingLabels{tenantv1beta1.LabelManaged: "true"})
}

func (r *Reconciler) list(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.Client.List(ctx, all, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		klog.ErrorS(err, "Can't list the namespaces that a change may concern")
		return nil
	}
	out := make([]reconcile.Request, len(all.Items))
	for i := range all.Items {
		out[i] = reconcile.Request{NamespacedName: types.NamespacedName{Name: all.Items[i].Name}}
	}
	return out
}
