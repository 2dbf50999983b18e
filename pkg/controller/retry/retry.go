// Package retry returns when an object is reconciled again after a failed write, and counts how often an operation has failed.
package retry

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kapis.dev/ks-apiserver/pkg/controller/crd"
)

const (
	// Conflict is the pause after a write that conflicted.
	Conflict = 50 * time.Millisecond
	// Missing is the pause before a missing kind is looked up again: its creation causes no event.
	Missing = 5 * time.Second
)

// OnConflict returns the result of a reconciliation: if err says that the object was changed or created meanwhile, which is no failure,
// again after Conflict; otherwise err, or after the given time if that is not 0.
func OnConflict(after time.Duration, err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: Conflict}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// OnMissingKind is OnConflict for a controller that may run longer than the kinds it writes exist: if one of them is
// missing, it tries again after Missing.
func OnMissingKind(after time.Duration, err error) (reconcile.Result, error) {
	if crd.Missing(err) {
		return reconcile.Result{RequeueAfter: Missing}, nil
	}
	return OnConflict(after, err)
}
