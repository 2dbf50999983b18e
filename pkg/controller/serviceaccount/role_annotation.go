// Package serviceaccount gives native service accounts the role of their namespace that their annotation iam.kubesphere.io/role names,
// by a RoleBinding of iam.kubesphere.io. Writing such an annotation gives a role: a webhook checks that the writer may do so, and
// without that webhook no annotation counts.
package serviceaccount

import (
	"context"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

const (
	// Name is the controller's name.
	Name = "serviceaccount"

	// bindingPrefix begins the names of the bindings.
	bindingPrefix = "ks-serviceaccount-"
	// unguardedRetry is the pause before an annotation that the webhook did not check is read again.
	unguardedRetry = time.Minute
)

// Setup adds the controller to mgr. The conditions are those that the webhook at Path may have; see isGuarded.
func Setup(_ context.Context, mgr manager.Manager, but []admissionregistrationv1.MatchCondition) error {
	r := &Reconciler{Client: mgr.GetClient(), Events: mgr.GetEventRecorder(Name), Guarded: func(ctx context.Context) (bool, error) {
		return isGuarded(ctx, mgr.GetAPIReader(), but)
	}}
	return builder.ControllerManagedBy(mgr).Named(Name).
		For(&corev1.ServiceAccount{}, builder.OnlyMetadata).
		Owns(&iamv1beta1.RoleBinding{}).
		Complete(r)
}

// Reconciler reconciles the bindings of service accounts.
type Reconciler struct {
	Client client.Client
	Events events.EventRecorder
	// Guarded reports whether kube-apiserver calls the webhook at Path for every write of a service account.
	Guarded func(ctx context.Context) (bool, error)
}

// Reconcile updates the binding of one service account.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	a := &metav1.PartialObjectMetadata{}
	a.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	if err := r.Client.Get(ctx, req.NamespacedName, a); err != nil || !a.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, client.IgnoreNotFound(err) // its binding is deleted with it
	}
	return retry.OnConflict(r.sync(ctx, a))
}

func (r *Reconciler) sync(ctx context.Context, a *metav1.PartialObjectMetadata) (wait time.Duration, err error) {
	have := &iamv1beta1.RoleBinding{}
	key := types.NamespacedName{Namespace: a.Namespace, Name: bindingPrefix + a.Name}
	err = r.Client.Get(ctx, key, have)
	found := err == nil
	if err := client.IgnoreNotFound(err); err != nil {
		return 0, fmt.Errorf("read role binding %s: %w", key, err)
	}
	if found && !metav1.IsControlledBy(have, a) {
		return 0, nil // another object's, or that of a deleted service account of the same name
	}
	role := a.Annotations[iamv1beta1.AnnotationRole]
	if role == "" {
		if !found {
			return 0, nil
		}
		return 0, client.IgnoreNotFound(r.Client.Delete(ctx, have))
	}
	want := binding(a.Namespace, a.Name, role)
	if found && equality.Semantic.DeepEqual(have.RoleRef, want.RoleRef) && equality.Semantic.DeepEqual(have.Subjects, want.Subjects) {
		return 0, nil
	}
	guarded, err := r.Guarded(ctx)
	if err != nil {
		return 0, err
	}
	if !guarded {
		r.Events.Eventf(a, nil, corev1.EventTypeWarning, "RoleNotBound", "Bind",
			"The role %q of the annotation %s is not given: kube-apiserver does not ask the webhook %s whether who wrote it may.", role,
			iamv1beta1.AnnotationRole, Path)
		return unguardedRetry, nil
	}
	return 0, r.write(ctx, a, have, want, found)
}

func (r *Reconciler) write(ctx context.Context, a *metav1.PartialObjectMetadata, have, want *iamv1beta1.RoleBinding, found bool) error {
	if err := controllerutil.SetControllerReference(a, want, r.Client.Scheme()); err != nil {
		return fmt.Errorf("make the role binding of service account %s/%s: %w", a.Namespace, a.Name, err)
	}
	if !found {
		if err := r.Client.Create(ctx, want); err != nil {
			return fmt.Errorf("bind service account %s/%s to its role: %w", a.Namespace, a.Name, err)
		}
		return nil
	}
	before := have.DeepCopy()
	have.RoleRef, have.Subjects = want.RoleRef, want.Subjects
	iamv1beta1.SetReference(have, iamv1beta1.LabelRoleReference, want.RoleRef.Name)
	if err := r.Client.Patch(ctx, have, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("bind service account %s/%s to its role: %w", a.Namespace, a.Name, err)
	}
	return nil
}

// binding returns the binding for an annotation.
func binding(namespace, name, role string) *iamv1beta1.RoleBinding {
	b := &iamv1beta1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: iamv1beta1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: bindingPrefix + name},
		RoleRef:    rbacv1.RoleRef{APIGroup: iamv1beta1.GroupName, Kind: iamv1beta1.KindRole, Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}
	iamv1beta1.SetReference(b, iamv1beta1.LabelServiceAccountReference, name)
	iamv1beta1.SetReference(b, iamv1beta1.LabelRoleReference, role)
	return b
}
