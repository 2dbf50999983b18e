package application

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/controller/enqueue"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

var onlyDeletions = predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool { return !e.ObjectNew.GetDeletionTimestamp().IsZero() }}

// SetupCategories adds the controller of Categories to mgr.
func SetupCategories(_ context.Context, mgr manager.Manager) error {
	r := &Categories{Client: mgr.GetClient()}
	of := enqueue.ByLabel(v2.LabelCategory)
	always := source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		for _, req := range enqueue.Named(v2.CategoryUncategorized) {
			q.Add(req)
		}
		return nil
	})
	return builder.ControllerManagedBy(mgr).Named(CategoryName).For(&v2.Category{}).Watches(&v2.Application{}, of).
		WatchesRawSource(always).Complete(r)
}

// Categories reconciles how many Applications each Category says it has, and that there is one for those without.
type Categories struct{ Client client.Client }

// Reconcile counts the Applications of one Category.
func (r *Categories) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	c := &v2.Category{}
	err := r.Client.Get(ctx, req.NamespacedName, c)
	switch {
	case apierrors.IsNotFound(err) && req.Name == v2.CategoryUncategorized:
		c = &v2.Category{ObjectMeta: metav1.ObjectMeta{Name: req.Name,
			Annotations: map[string]string{"kubesphere.io/alias-name": "Uncategorized"}}}
		if err := r.Client.Create(ctx, c); err != nil && !apierrors.IsAlreadyExists(err) {
			return reconcile.Result{}, fmt.Errorf("create the Category %s: %w", req.Name, err)
		}
		return reconcile.Result{}, nil // its creation is an event
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	case !c.DeletionTimestamp.IsZero():
		return retry.OnConflict(0, unfinalize(ctx, r.Client, c, v2.FinalizerCategory))
	}
	in := &v2.ApplicationList{}
	if err := r.Client.List(ctx, in, client.MatchingLabels{v2.LabelCategory: c.Name}); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the Applications of the Category %s: %w", c.Name, err)
	}
	if c.Status.Total == len(in.Items) {
		return reconcile.Result{}, nil
	}
	before := c.DeepCopy()
	c.Status.Total = len(in.Items)
	err = r.Client.Status().Patch(ctx, c, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		err = fmt.Errorf("count the Applications of the Category %s: %w", c.Name, err)
	}
	return retry.OnConflict(0, client.IgnoreNotFound(err))
}
