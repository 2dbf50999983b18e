// Package retry says when an object is reconciled again after a write that did not succeed.
package retry

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kapis.dev/ks-apiserver/pkg/controller/crd"
)

const (
	// Conflict is how soon a write that met a newer object is tried again.
	Conflict = 50 * time.Millisecond
	// Missing is how soon a kind that is not there is looked for again: its coming back is no event.
	Missing = 5 * time.Second
)

// OnConflict returns the result of a reconciliation: again after Conflict where err says that somebody else changed or created an object
// meanwhile, which is no failure; otherwise err, or after the given time where that is not 0.
func OnConflict(after time.Duration, err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: Conflict}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// OnMissingKind is OnConflict for a controller that outlives the kinds it writes: where one of them is missing, it tries again after Missing.
func OnMissingKind(after time.Duration, err error) (reconcile.Result, error) {
	if crd.Missing(err) {
		return reconcile.Result{RequeueAfter: Missing}, nil
	}
	return OnConflict(after, err)
}
