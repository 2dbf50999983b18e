package application

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore"
	"kapis.dev/ks-apiserver/pkg/appstore/file"
	"kapis.dev/ks-apiserver/pkg/controller/enqueue"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

// author is who moves versions that go along with their application.
const author = "system"

// SetupVersions adds the controller of ApplicationVersions to mgr.
func SetupVersions(_ context.Context, mgr manager.Manager, files *file.Files) error {
	r := &Versions{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Files: files, Now: time.Now}
	ofApp := enqueue.ListedByLabel(r.Client, &v2.ApplicationVersionList{}, v2.LabelApp)
	moved := predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, now := e.ObjectOld.(*v2.Application), e.ObjectNew.(*v2.Application)
			return before.Status.State != now.Status.State || before.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero()
		}}
	return builder.ControllerManagedBy(mgr).Named(VersionName).For(&v2.ApplicationVersion{}).
		Watches(&v2.Application{}, ofApp, builder.WithPredicates(moved)).Complete(r)
}

// Versions reconciles ApplicationVersions with their Applications, and their packages with them.
type Versions struct {
	Client client.Client
	// Live reads at kube-apiserver what the cache does not have.
	Live  client.Reader
	Files file.Store
	Now   func() time.Time
}

// Reconcile reconciles one ApplicationVersion: it goes with its Application, and its package with it.
func (r *Versions) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	v := &v2.ApplicationVersion{}
	if err := r.Client.Get(ctx, req.NamespacedName, v); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !v.DeletionTimestamp.IsZero() {
		if !controllerutil.ContainsFinalizer(v, v2.FinalizerFiles) {
			return reconcile.Result{}, nil
		}
		if err := r.Files.Delete(ctx, v.Name); err != nil {
			return reconcile.Result{}, err
		}
		return retry.OnConflict(0, unfinalize(ctx, r.Client, v, v2.FinalizerFiles))
	}
	name := v.Labels[v2.LabelApp]
	if name == "" {
		return reconcile.Result{}, nil // whose it is, nobody knows
	}
	a := &v2.Application{}
	there, err := exists(ctx, r.Client, r.Live, name, a)
	if err != nil {
		return reconcile.Result{}, err
	}
	if v.Labels[v2.LabelRepo] == v2.RepoUpload && !controllerutil.ContainsFinalizer(v, v2.FinalizerFiles) {
		before := v.DeepCopy()
		controllerutil.AddFinalizer(v, v2.FinalizerFiles)
		err := r.Client.Patch(ctx, v, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if client.IgnoreNotFound(err) != nil {
			return retry.OnConflict(0, fmt.Errorf("add the finalizer of the ApplicationVersion %s: %w", v.Name, err))
		}
	}
	if !there {
		err := r.Client.Delete(ctx, v, client.Preconditions{UID: ptr.To(v.UID)})
		if client.IgnoreNotFound(err) != nil {
			err = fmt.Errorf("delete the ApplicationVersion %s, whose Application is gone: %w", v.Name, err)
		}
		return retry.OnConflict(0, client.IgnoreNotFound(err))
	}
	return retry.OnConflict(0, r.state(ctx, a, v))
}

// state writes the state of a version that has none, or whose application was suspended.
func (r *Versions) state(ctx context.Context, a *v2.Application, v *v2.ApplicationVersion) error {
	before, now := v.DeepCopy(), metav1.NewTime(r.Now().Truncate(time.Second))
	switch {
	case v.Status.State == "" && v.Labels[v2.LabelRepo] == v2.RepoUpload:
		v.Status.State, v.Status.Updated = v2.StateDraft, &now
	case v.Status.State == v2.StateActive && a.Status.State == v2.StateSuspended:
		appstore.Move(&v.Status, v2.StateSuspended, "the application was suspended", author, now)
	default:
		return nil
	}
	err := r.Client.Status().Patch(ctx, v, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the state of the ApplicationVersion %s: %w", v.Name, err)
	}
	return nil
}
