package loginrecord

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// mark writes the last login into the user's status; known reports whether the user exists.
func (r *Reconciler) mark(ctx context.Context, name string, items []iamv1beta1.LoginRecord) (known bool, err error) {
	u := &iamv1beta1.User{}
	if name == "" {
		return false, nil
	}
	err = r.Client.Get(ctx, client.ObjectKey{Name: name}, u)
	if apierrors.IsNotFound(err) && len(items) > 0 {
		// The record of a user who was just created, at the first login by an identity provider, may arrive before the user.
		err = r.Live.Get(ctx, client.ObjectKey{Name: name}, u)
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read user %q: %w", name, err)
	}
	i := slices.IndexFunc(items, func(l iamv1beta1.LoginRecord) bool { return l.Spec.Success })
	if i < 0 || !u.DeletionTimestamp.IsZero() {
		return true, nil
	}
	last := items[i].CreationTimestamp
	if was := u.Status.LastLoginTime; was != nil && last.Sub(was.Time) < coarse {
		return true, nil
	}
	before := u.DeepCopy()
	u.Status.LastLoginTime = &metav1.Time{Time: last.Time}
	patch, want := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), u.Status
	err = r.Client.Status().Patch(ctx, u, patch)
	if apierrors.IsNotFound(err) {
		// The CRD of an older installation has no sub-resource: the status is written with the object.
		u.Status = want
		err = r.Client.Patch(ctx, u, patch)
	}
	if err != nil {
		return true, fmt.Errorf("tell the last login of user %q: %w", name, err)
	}
	return true, nil
}
