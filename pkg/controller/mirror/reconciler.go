package mirror

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/crd"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

// Reconciler reconciles the roles of one kind: their rules by their templates, and their mirror by their rules and bindings.
type Reconciler struct {
	Kind   Kind
	Client client.Client
	Writer *Writer
	Lag    *Lag
}

// Reconcile updates one role.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	source := Source(r.Kind.Name, req.NamespacedName)
	start, timed := r.Lag.begin(source)
	wrote, again, err := r.sync(ctx, req.NamespacedName, source)
	if timed && err == nil {
		r.Lag.done(source)
		if wrote > 0 {
			r.Lag.observe(r.Kind.Name, start)
		}
	}
	return retry.OnConflict(again, err)
}

func (r *Reconciler) sync(ctx context.Context, key types.NamespacedName, source string) (wrote int, again time.Duration, err error) {
	bindings, err := r.bindings(ctx, key)
	if err != nil {
		return 0, 0, err
	}
	role := r.Kind.New()
	if err := r.Client.Get(ctx, key, role); apierrors.IsNotFound(err) {
		return r.Writer.write(ctx, nil, source, native{})
	} else if err != nil {
		return 0, 0, fmt.Errorf("read %s: %w", source, err)
	}
	if !role.GetDeletionTimestamp().IsZero() {
		wrote, again, err = r.Writer.write(ctx, role, source, native{})
		if err == nil {
			err = r.removeFinalizer(ctx, role, r.Kind.RoleFinalizer)
		}
		return wrote, again, err
	}
	if err := r.disown(ctx, role); err != nil {
		return 0, 0, err
	}
	if err := r.aggregate(ctx, role); err != nil {
		return 0, 0, err
	}
	want, err := r.wanted(ctx, role, source, bindings)
	if err != nil {
		return 0, 0, err
	}
	return r.Writer.write(ctx, role, source, want)
}

// bindings returns the role's bindings, which belong to the cache: read only. One that is being deleted does not count,
// and its finalizer is removed.
func (r *Reconciler) bindings(ctx context.Context, key types.NamespacedName) ([]client.Object, error) {
	list := r.Kind.NewBindingList()
	if err := r.Client.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{RoleField: key.Name},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the bindings of %s: %w", Source(r.Kind.Name, key), err)
	}
	var live []client.Object
	err := meta.EachListItem(list, func(o runtime.Object) error {
		b := o.(client.Object)
		if b.GetDeletionTimestamp().IsZero() {
			live = append(live, b)
			return r.disown(ctx, b)
		}
		return r.removeFinalizer(ctx, b, r.Kind.BindingFinalizer)
	})
	return live, err
}

// removeFinalizer removes a finalizer.
func (r *Reconciler) removeFinalizer(ctx context.Context, o client.Object, finalizer string) error {
	if finalizer == "" || !controllerutil.ContainsFinalizer(o, finalizer) {
		return nil
	}
	after := o.DeepCopyObject().(client.Object)
	controllerutil.RemoveFinalizer(after, finalizer)
	err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizer of %q: %w", o.GetName(), err)
	}
	return nil
}

// disown removes owner references of older installations to a workspace (S74). o belongs to the cache and is not changed.
func (r *Reconciler) disown(ctx context.Context, o client.Object) error {
	if len(o.GetOwnerReferences()) == 0 {
		return nil
	}
	after := o.DeepCopyObject().(client.Object)
	if !crd.DropWorkspaceOwners(after) {
		return nil
	}
	if err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(o,
		client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the workspace from the owners of %q: %w", o.GetName(), err)
	}
	return nil
}

// wanted returns the native objects that mirror the role.
func (r *Reconciler) wanted(ctx context.Context, role client.Object, source string, bindings []client.Object) (native, error) {
	place, err := r.Kind.NativeScope(ctx, r.Client, role)
	if err != nil {
		return native{}, fmt.Errorf("find where %s counts: %w", source, err)
	}
	_, conditional := role.GetAnnotations()[iamv1beta1.AnnotationCELCondition]
	rego := role.GetAnnotations()[iamv1beta1.AnnotationRegoOverride] != ""
	rules, wrong := iamv1beta1.ValidRules(*r.Kind.Fields(role).Rules)
	if wrong != nil {
		r.ignored(role, wrong)
	}
	g := &grant{Rules: rules, Conditional: conditional, Rego: rego, Scope: place}
	for _, b := range bindings {
		if place.Admit == nil || place.Admit(b) {
			_, subjects := r.Kind.Bound(b)
			g.Subjects = append(g.Subjects, subjects...)
		}
	}
	g.Bound = len(g.Subjects) > 0
	gvk, err := apiutil.GVKForObject(role, r.Client.Scheme())
	if err != nil {
		return native{}, fmt.Errorf("name the kind of %s: %w", source, err)
	}
	owner := metav1.OwnerReference{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: role.GetName(), UID: role.GetUID()}
	return objects(g, source, owner), nil
}

// ignored reports rules that give nothing, by an event of the object that has them and in the log: roles and templates have no conditions.
func (r *Reconciler) ignored(o client.Object, wrong error) {
	klog.ErrorS(wrong, "Rules are ignored until they are mended", "object", klog.KObj(o), "for", r.Kind.Name)
	r.Writer.Events.Eventf(o, nil, corev1.EventTypeWarning, "RulesIgnored", "Mirror", "%v", wrong)
}
