// Package loginrecord limits the records of logins, in age and in number, and writes each user's last login into the status.
package loginrecord

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

const (
	// Name is the controller's name.
	Name = "loginrecord"

	// userField is the index of records by the user that their label names.
	userField = "kapis.dev/user-ref"
	// deleteAtOnce bounds the deletions of one round.
	deleteAtOnce = 100
	// coarse is the precision of the time of the last login: a script that logs in all the time does not cause a write each time.
	coarse = time.Minute
)

// Setup adds the controller to mgr. Records older than retention are deleted, and those of a user except for the newest most.
func Setup(ctx context.Context, mgr manager.Manager, retention time.Duration, most int) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &iamv1beta1.LoginRecord{}, userField, UserIndex); err != nil {
		return fmt.Errorf("index login records by user: %w", err)
	}
	r := &Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Retention: retention, Most: most, Now: time.Now}
	toUser := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetLabels()[iamv1beta1.LabelUserReference]}}}
	})
	return builder.ControllerManagedBy(mgr).Named(Name).Watches(&iamv1beta1.LoginRecord{}, toUser).Complete(r)
}

// UserIndex is the index function of login records.
func UserIndex(o client.Object) []string {
	return []string{o.GetLabels()[iamv1beta1.LabelUserReference]}
}

// Reconciler deletes records of logins, one user at a time.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads without the cache.
	Client client.Client
	Live   client.Reader
	// Retention is how long a record is kept, and Most how many records a user may have.
	Retention time.Duration
	Most      int
	// Now is the clock.
	Now func() time.Time
}

// Reconcile handles the records of one user.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	records := &iamv1beta1.LoginRecordList{}
	if err := r.Client.List(ctx, records, client.MatchingFields{userField: req.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the login records of %q: %w", req.Name, err)
	}
	items := slices.Clone(records.Items)
	slices.SortFunc(items, func(a, b iamv1beta1.LoginRecord) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	keep := r.Most
	switch known, err := r.mark(ctx, req.Name, items); {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case err != nil:
		return reconcile.Result{}, err
	case !known:
		keep = 0
	}
	now := r.Now()
	old := slices.IndexFunc(items, func(l iamv1beta1.LoginRecord) bool { return !now.Before(l.CreationTimestamp.Add(r.Retention)) })
	if old >= 0 {
		keep = min(keep, old)
	}
	return r.trim(ctx, items, min(keep, len(items)))
}

// trim deletes all but the first keep records, the oldest first, and returns when to check again.
func (r *Reconciler) trim(ctx context.Context, items []iamv1beta1.LoginRecord, keep int) (reconcile.Result, error) {
	for n := range len(items) - keep {
		if n == deleteAtOnce {
			return reconcile.Result{RequeueAfter: time.Second}, nil
		}
		l := &items[len(items)-1-n]
		if err := r.Client.Delete(ctx, l, client.Preconditions{UID: &l.UID}); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return reconcile.Result{}, fmt.Errorf("delete login record %q: %w", l.Name, err)
		}
	}
	if keep == 0 {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(time.Second, items[keep-1].CreationTimestamp.Add(r.Retention).Sub(r.Now()))}, nil
}
