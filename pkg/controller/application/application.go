// Package application reconciles applications of the store, their versions and categories. Each step can be done again: what an earlier
// process began, and did not finish, the next one finishes.
package application

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/controller/enqueue"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

// The controllers' names.
const (
	Name           = "application"
	VersionName    = "applicationversion"
	CategoryName   = "applicationcategory"
	AttachmentName = "applicationattachment"
)

// Setup adds the controller of Applications to mgr.
func Setup(_ context.Context, mgr manager.Manager) error {
	r := &Applications{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Now: time.Now}
	ofVersion := enqueue.ByLabel(v2.LabelApp)
	ofCategory := enqueue.ListedByLabel(r.Client, &v2.ApplicationList{}, v2.LabelCategory)
	return builder.ControllerManagedBy(mgr).Named(Name).For(&v2.Application{}).Watches(&v2.ApplicationVersion{}, ofVersion).
		Watches(&v2.Category{}, ofCategory, builder.WithPredicates(onlyDeletions)).Complete(r)
}

// Applications reconciles the state of uploaded Applications with those of their versions, and their category with those that there are.
type Applications struct {
	Client client.Client
	// Live reads at kube-apiserver what the cache does not have.
	Live client.Reader
	Now  func() time.Time
}

// Reconcile reconciles one Application.
func (r *Applications) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	a := &v2.Application{}
	if err := r.Client.Get(ctx, req.NamespacedName, a); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !a.DeletionTimestamp.IsZero() {
		// Its versions are deleted once it is gone: that needs no finalizer, which existing installations have.
		return retry.OnConflict(0, unfinalize(ctx, r.Client, a, v2.FinalizerFiles))
	}
	if a.Labels[v2.LabelRepo] != v2.RepoUpload {
		return reconcile.Result{}, nil // as its Repo says
	}
	versions := &v2.ApplicationVersionList{}
	if err := r.Client.List(ctx, versions, client.MatchingLabels{v2.LabelApp: a.Name}); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the versions of the Application %s: %w", a.Name, err)
	}
	if err := r.describe(ctx, a, versions.Items); err != nil {
		return retry.OnConflict(0, err)
	}
	var states []string
	for i := range versions.Items {
		if v := &versions.Items[i]; v.DeletionTimestamp.IsZero() {
			states = append(states, v.Status.State)
		}
	}
	state := appstore.AppState(a.Status.State, states)
	if state == a.Status.State {
		return reconcile.Result{}, nil
	}
	before := a.DeepCopy()
	now := metav1.NewTime(r.Now().Truncate(time.Second))
	a.Status.State, a.Status.UpdateTime = state, &now
	err := r.Client.Status().Patch(ctx, a, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		err = fmt.Errorf("write the state of the Application %s: %w", a.Name, err)
	}
	return retry.OnConflict(0, client.IgnoreNotFound(err))
}

// describe writes the category and the newest version of an Application.
func (r *Applications) describe(ctx context.Context, a *v2.Application, versions []v2.ApplicationVersion) error {
	before := a.DeepCopy()
	category := a.Labels[v2.LabelCategory]
	if category != "" && category != v2.CategoryUncategorized {
		there, err := exists(ctx, r.Client, r.Live, category, &v2.Category{})
		if err != nil {
			return err
		}
		if !there {
			category = ""
		}
	}
	if category == "" {
		metav1.SetMetaDataLabel(&a.ObjectMeta, v2.LabelCategory, v2.CategoryUncategorized)
	}
	if latest := newest(versions); latest != "" && latest != a.Annotations[v2.AnnotationLatestVersion] {
		metav1.SetMetaDataAnnotation(&a.ObjectMeta, v2.AnnotationLatestVersion, latest)
	}
	if a.Labels[v2.LabelCategory] == before.Labels[v2.LabelCategory] &&
		a.Annotations[v2.AnnotationLatestVersion] == before.Annotations[v2.AnnotationLatestVersion] {
		return nil
	}
	err := r.Client.Patch(ctx, a, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the category and the newest version of the Application %s: %w", a.Name, err)
	}
	return nil
}

// newest returns the highest version, of the active ones where there are any.
func newest(versions []v2.ApplicationVersion) string {
	active := slices.ContainsFunc(versions, func(v v2.ApplicationVersion) bool { return v.Status.State == v2.StateActive })
	out := ""
	for i := range versions {
		v := &versions[i]
		if v.DeletionTimestamp.IsZero() && (!active || v.Status.State == v2.StateActive) &&
			(out == "" || chart.Compare(v.Spec.VersionName, out) > 0) {
			out = v.Spec.VersionName
		}
	}
	return out
}

// exists reports whether there is a cluster-scoped object that is not being deleted. What the cache does not have may be new, so
// kube-apiserver is asked before anything is done about that.
func exists(ctx context.Context, cached, live client.Reader, name string, into client.Object) (bool, error) {
	key := types.NamespacedName{Name: name}
	err := cached.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		err = live.Get(ctx, key, into)
	}
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read %T %s: %w", into, name, err)
	}
	return into.GetDeletionTimestamp().IsZero(), nil
}

// unfinalize removes a finalizer.
func unfinalize(ctx context.Context, c client.Client, o client.Object, finalizer string) error {
	before := o.DeepCopyObject().(client.Object)
	if !controllerutil.RemoveFinalizer(o, finalizer) {
		return nil
	}
	err := c.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizer of %T %s: %w", o, o.GetName(), err)
	}
	return nil
}
