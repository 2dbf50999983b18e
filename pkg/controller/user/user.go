// Package user reconciles Users: it replaces new passwords by their hashes, sets the state and the annotation with the
// user's GlobalRole that pages read, and removes deleted users from the objects that name them.
//
// It grants no rights. Clients write annotations of a User, and these are never read as a request for a role.
package user

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
	"kapis.dev/ks-apiserver/pkg/controller/crd"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

const (
	// Name is the controller's name.
	Name = "user"

	definition = "users.iam.kubesphere.io"

	// platformAdmin is the GlobalRole that is named first if a user has several.
	platformAdmin = "platform-admin"
	// workers is how many users are reconciled at a time. A hash takes some 60 ms of a core.
	workers = 2
)

// Setup adds the controller to mgr. A user whose status says that they are locked out is unlocked after unlock.
func Setup(ctx context.Context, mgr manager.Manager, unlock time.Duration) error {
	r := &Reconciler{
		Client: mgr.GetClient(),
		Live:   mgr.GetAPIReader(),
		Events: mgr.GetEventRecorder(Name),
		Hash:   Hash,
		Unlock: unlock,
		Now:    time.Now,
	}
	for _, h := range referenceKinds() {
		err := mgr.GetFieldIndexer().IndexField(ctx, h.object, userField, UserIndex)
		if meta.IsNoMatchError(err) {
			klog.InfoS("An older installation has no such kind; it is looked for when a user is deleted", "kind", h.kind)
			continue
		}
		if err != nil {
			return fmt.Errorf("index %s by user: %w", h.kind, err)
		}
		r.indexed = append(r.indexed, h.kind)
	}
	return builder.ControllerManagedBy(mgr).Named(Name).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&iamv1beta1.User{}).
		Watches(&iamv1beta1.GlobalRoleBinding{}, handler.EnqueueRequestsFromMapFunc(usersOf)).
		Complete(r)
}

// Reconciler reconciles Users.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads without the cache.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	// Hash returns the hash of a password.
	Hash func(password string) (string, error)
	// Unlock is how long a lockout lasts that an older installation wrote into a user's status; 0 for ever.
	Unlock time.Duration
	// Now is the clock.
	Now func() time.Time

	indexed []string // the referenceKinds that the cache indexes
}

// Reconcile updates one user.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	u := &iamv1beta1.User{}
	if err := r.Client.Get(ctx, req.NamespacedName, u); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var err error
	if u.DeletionTimestamp.IsZero() {
		if err = r.write(ctx, u); err == nil {
			err = r.activate(ctx, u)
		}
	} else {
		err = r.finalize(ctx, u)
	}
	return retry.OnConflict(r.locked(u), client.IgnoreNotFound(err))
}

// locked returns for how long the user is still locked out; 0 if they are not.
func (r *Reconciler) locked(u *iamv1beta1.User) time.Duration {
	if u.Status.State != iamv1beta1.UserAuthLimitExceeded || u.Status.LastTransitionTime == nil || r.Unlock <= 0 {
		return 0
	}
	return max(0, u.Status.LastTransitionTime.Add(r.Unlock).Sub(r.Now()))
}

// write updates metadata and spec, in one patch.
func (r *Reconciler) write(ctx context.Context, u *iamv1beta1.User) error {
	before := u.DeepCopy()
	controllerutil.AddFinalizer(u, iamv1beta1.FinalizerUser)
	if err := r.annotate(ctx, u); err != nil {
		return err
	}
	refused, err := r.hash(u)
	if err != nil {
		return err
	}
	if equal(before, u) {
		return nil
	}
	if err := r.Client.Patch(ctx, u, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write user %q: %w", u.Name, err)
	}
	if refused {
		r.Events.Eventf(u, nil, corev1.EventTypeWarning, "PasswordRefused", "Hash",
			"The password is longer than %d bytes and was removed. Set a shorter one.", maxPassword)
	}
	return nil
}

func equal(a, b *iamv1beta1.User) bool {
	return a.Spec.Password == b.Spec.Password && maps.Equal(a.Annotations, b.Annotations) && slices.Equal(a.Finalizers, b.Finalizers)
}

// hash replaces a new password by its bcrypt hash. A password that is too long for bcrypt is removed, since it must not
// be stored in clear text; refused reports that.
func (r *Reconciler) hash(u *iamv1beta1.User) (refused bool, err error) {
	if u.Spec.Password == "" {
		return false, nil
	}
	if isHash(u.Spec.Password) {
		r.noteChange(u, false)
		return false, nil
	}
	// kubectl apply stores what it applied, including the clear text.
	delete(u.Annotations, corev1.LastAppliedConfigAnnotation)
	if len(u.Spec.Password) > maxPassword {
		u.Spec.Password = ""
		return true, nil
	}
	u.Spec.Password, err = r.Hash(u.Spec.Password)
	if err != nil {
		return false, fmt.Errorf("hash the password of user %q: %w", u.Name, err)
	}
	r.noteChange(u, true)
	return false, nil
}

// noteChange records when the password was changed, no matter which component hashed it: the time is stored next to a
// fingerprint of the hash. A hash that is seen for the first time is no change, unless it was made here.
func (r *Reconciler) noteChange(u *iamv1beta1.User, made bool) {
	now := fingerprint(u.Spec.Password)
	was, noted := u.Annotations[iamv1beta1.AnnotationPasswordFingerprint]
	if was == now {
		return
	}
	if noted || made {
		setAnnotation(u, iamv1beta1.AnnotationLastPasswordChangeTime, r.Now().UTC().Format(time.RFC3339))
	}
	setAnnotation(u, iamv1beta1.AnnotationPasswordFingerprint, now)
}

// annotate writes the user's GlobalRole into the annotation that pages read: the role that bindings give to the user by
// name. Of several, platform-admin comes first, then the first in the alphabet.
func (r *Reconciler) annotate(ctx context.Context, u *iamv1beta1.User) error {
	bindings := &iamv1beta1.GlobalRoleBindingList{}
	if err := r.Client.List(ctx, bindings, client.MatchingFields{userField: u.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the global roles of user %q: %w", u.Name, err)
	}
	role := ""
	for i := range bindings.Items {
		b := &bindings.Items[i]
		if !b.DeletionTimestamp.IsZero() || b.RoleRef.Kind != iamv1beta1.KindGlobalRole || b.RoleRef.APIGroup != "" &&
			b.RoleRef.APIGroup != iamv1beta1.GroupName {
			continue
		}
		if name := b.RoleRef.Name; role == "" || name == platformAdmin || role != platformAdmin && name < role {
			role = name
		}
	}
	if role == "" {
		delete(u.Annotations, iamv1beta1.AnnotationGlobalRole)
	} else {
		setAnnotation(u, iamv1beta1.AnnotationGlobalRole, role)
	}
	return nil
}

func setAnnotation(u *iamv1beta1.User, key, value string) {
	if u.Annotations == nil {
		u.Annotations = map[string]string{}
	}
	u.Annotations[key] = value
}

// activate sets the state Active if the password is hashed, or if the user has none and comes from an identity
// provider. All other states stay.
func (r *Reconciler) activate(ctx context.Context, u *iamv1beta1.User) error {
	before := u.DeepCopy()
	over := u.Status.State == iamv1beta1.UserAuthLimitExceeded && u.Status.LastTransitionTime != nil && r.Unlock > 0 && r.locked(u) == 0
	if u.Status.State == iamv1beta1.UserPending || over {
		u.Status.State, u.Status.Reason, u.Status.LastTransitionTime = iamv1beta1.UserActive, "", nil
	}
	if u.Status.LastTransitionTime == nil {
		u.Status.LastTransitionTime = &metav1.Time{Time: r.Now().UTC().Truncate(time.Second)}
	}
	if before.Status.State == u.Status.State && before.Status.LastTransitionTime != nil {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	want := u.Status
	err := r.Client.Status().Patch(ctx, u, patch)
	if apierrors.IsNotFound(err) {
		// The CRD of an older installation has no sub-resource: the status is written with the object.
		u.Status = want
		err = r.Client.Patch(ctx, u, patch)
	}
	if err != nil {
		return fmt.Errorf("write the status of user %q: %w", u.Name, err)
	}
	return nil
}

// finalize removes a deleted user from all objects that name it, and then the finalizer. If the definition of users is deleted, all
// users are deleted with it, but their rights should not end (S74): creating a user of such a name requires these rights (package
// admission).
func (r *Reconciler) finalize(ctx context.Context, u *iamv1beta1.User) error {
	if !controllerutil.ContainsFinalizer(u, iamv1beta1.FinalizerUser) {
		return nil
	}
	going, err := crd.Going(ctx, r.Live, definition)
	if err != nil {
		return err
	}
	if !going {
		if err := r.forget(ctx, u.Name); err != nil {
			return err
		}
	}
	before := u.DeepCopy()
	controllerutil.RemoveFinalizer(u, iamv1beta1.FinalizerUser)
	if err := r.Client.Patch(ctx, u, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("let user %q go: %w", u.Name, err)
	}
	return nil
}

// usersOf returns the users of a binding.
func usersOf(_ context.Context, binding client.Object) []reconcile.Request {
	names := UserIndex(binding)
	out := make([]reconcile.Request, len(names))
	for i, name := range names {
		out[i] = reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
	}
	return out
}

// isUser reports whether a subject is the user of that name.
func isUser(s *rbacv1.Subject, name string) bool {
	return s.Kind == rbacv1.UserKind && s.Name == name
}
