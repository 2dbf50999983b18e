package catalogue

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/enqueue"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

// SetupCategories adds the controller of Categories to mgr.
func SetupCategories(_ context.Context, mgr manager.Manager) error {
	r := &Categories{Client: mgr.GetClient()}
	of := enqueue.ByLabel(v1alpha1.LabelCategory)
	return builder.ControllerManagedBy(mgr).Named(CategoryName).For(&v1alpha1.Category{}).Watches(&v1alpha1.Extension{}, of).Complete(r)
}

// Categories reconciles the number of Extensions that each Category says it has.
type Categories struct{ Client client.Client }

// Reconcile counts the Extensions of one Category.
func (r *Categories) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	c := &v1alpha1.Category{}
	if err := r.Client.Get(ctx, req.NamespacedName, c); err != nil || !c.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	in := &v1alpha1.ExtensionList{}
	if err := r.Client.List(ctx, in, client.MatchingLabels{v1alpha1.LabelCategory: c.Name}); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the Extensions of the Category %s: %w", c.Name, err)
	}
	count := strconv.Itoa(len(in.Items))
	if c.Annotations[v1alpha1.AnnotationCount] == count {
		return reconcile.Result{}, nil
	}
	before := c.DeepCopy()
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationCount, count)
	err := r.Client.Patch(ctx, c, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		err = fmt.Errorf("count the Extensions of the Category %s: %w", c.Name, err)
	}
	return retry.OnConflict(0, client.IgnoreNotFound(err))
}
