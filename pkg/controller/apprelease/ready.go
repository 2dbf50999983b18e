package apprelease

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
)

const (
	// readyEvery is how often objects are looked at that are not ready, readyRarely after a minute, and readyLate once the time is over.
	readyEvery  = 5 * time.Second
	readyRarely = 30 * time.Second
	readyLate   = 2 * time.Minute
	// readyTime is how long objects may take before the state says so.
	readyTime = 10 * time.Minute
	// maxObserved is how many objects of a release are looked at.
	maxObserved = 100
)

// observe notes that a release which was applied has become ready, and when it takes too long. In all other states there is nothing to see.
func (r *Reconciler) observe(ctx context.Context, rel *v2.ApplicationRelease) (reconcile.Result, error) {
	s := &rel.Status
	switch s.State {
	case v2.ReleaseCreated, v2.ReleaseUpgraded, v2.ReleaseTimeout, v2.ReleaseDeployFailed:
	default:
		return reconcile.Result{}, nil
	}
	waits, failed, err := r.waitsFor(ctx, rel)
	if err != nil {
		return reconcile.Result{}, err
	}
	if waits == "" {
		r.enter(s, v2.ReleaseActive, "")
		return reconcile.Result{}, nil
	}
	var since time.Duration
	if s.LastUpdate != nil {
		since = r.Now().Sub(s.LastUpdate.Time)
	}
	switch {
	case failed:
		r.enter(s, v2.ReleaseDeployFailed, waits)
		return reconcile.Result{RequeueAfter: readyLate}, nil
	case s.State == v2.ReleaseDeployFailed: // it goes on: somebody has removed what kept it
		r.enter(s, v2.ReleaseCreated, "")
		return reconcile.Result{RequeueAfter: readyEvery}, nil
	case s.State == v2.ReleaseTimeout, since >= readyTime:
		r.enter(s, v2.ReleaseTimeout, fmt.Sprintf("not ready after %s: %s", readyTime, waits))
		return reconcile.Result{RequeueAfter: readyLate}, nil
	case since >= time.Minute:
		return reconcile.Result{RequeueAfter: readyRarely}, nil
	}
	return reconcile.Result{RequeueAfter: readyEvery}, nil
}

// waitsFor returns the first object of a release that says that it has failed, or else the first one that is not ready, with the reason;
// "" where all are. Objects that the author may not read, or that nobody is there to read, don't count.
func (r *Reconciler) waitsFor(ctx context.Context, rel *v2.ApplicationRelease) (waits string, failed bool, err error) {
	i, err := r.inventory(ctx, rel)
	if err != nil || i == nil {
		return "", false, err
	}
	as, err := r.author(ctx, rel)
	if isForbidden(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	objects, err := r.As(as.user, as.groups)
	if err != nil {
		return "", false, err
	}
	for _, o := range i.Objects[:min(len(i.Objects), maxObserved)] {
		u, err := objects.Resource(resourceOf(o)).Namespace(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			if waits == "" {
				waits = o.String() + " is not there"
			}
			continue
		case apierrors.IsForbidden(err):
			continue
		case err != nil:
			return "", false, fmt.Errorf("read %s of the release %s: %w", o, rel.Name, err)
		}
		is, err := status.Compute(u)
		if err != nil || is.Status == status.CurrentStatus || is.Status == status.UnknownStatus {
			continue // an object that says nothing readable of itself
		}
		if why := fmt.Sprintf("%s: %s", o, is.Message); is.Status == status.FailedStatus {
			return why, true, nil
		} else if waits == "" {
			waits = why
		}
	}
	return waits, false, nil
}

func resourceOf(o release.Object) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: o.Group, Version: o.Version, Resource: o.Resource}
}
