package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

// LabelName is the name of the controller that marks clusters with their Labels.
const LabelName = "clusterlabel"

// SetupLabels adds to mgr the controller that marks each Cluster with the Labels that are on it, so that lists of clusters select them.
func SetupLabels(_ context.Context, mgr manager.Manager) error {
	r := &LabelReconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}
	return builder.ControllerManagedBy(mgr).Named(LabelName).
		For(&clusterv1alpha1.Cluster{}, builder.WithPredicates(predicate.Or[client.Object](predicate.LabelChangedPredicate{},
			predicate.AnnotationChangedPredicate{}))).
		Watches(&clusterv1alpha1.Label{}, handler.EnqueueRequestsFromMapFunc(r.labelled)).
		Complete(r)
}

// LabelReconciler reconciles the labels with clusterv1alpha1.LabelClusterLabelPrefix of Clusters.
type LabelReconciler struct {
	Client client.Client
	// Live reads Labels that a new Cluster names: pages make both at once.
	Live client.Reader
}

// Reconcile updates the labels of one Cluster.
func (r *LabelReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return retry.OnMissingKind(0, r.sync(ctx, req.NamespacedName))
}

func (r *LabelReconciler) sync(ctx context.Context, name types.NamespacedName) error {
	c := &clusterv1alpha1.Cluster{}
	if err := r.Client.Get(ctx, name, c); err != nil || !c.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	if ids, asked := c.Annotations[clusterv1alpha1.AnnotationLabelIDs]; asked {
		if err := r.take(ctx, c, ids); err != nil {
			return err
		}
	}
	all := &clusterv1alpha1.LabelList{}
	if err := r.Client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the labels of clusters: %w", err)
	}
	want := map[string]bool{}
	for i := range all.Items {
		l := &all.Items[i]
		key := clusterv1alpha1.LabelClusterLabelPrefix + l.Name
		// An object's name may be longer than a label's: then it is none, so that the others are put on the cluster all the same.
		if l.DeletionTimestamp.IsZero() && slices.Contains(l.Spec.Clusters, c.Name) && validation.IsQualifiedName(key) == nil {
			want[key] = true
		}
	}
	before, changed := c.DeepCopy(), false
	for key := range c.Labels {
		if strings.HasPrefix(key, clusterv1alpha1.LabelClusterLabelPrefix) && !want[key] {
			delete(c.Labels, key)
			changed = true
		}
	}
	for key := range want {
		if _, ok := c.Labels[key]; !ok {
			if c.Labels == nil {
				c.Labels = map[string]string{}
			}
			c.Labels[key] = ""
			changed = true
		}
	}
	if !changed {
		return nil
	}
	err := r.Client.Patch(ctx, c, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("label cluster %q: %w", c.Name, err)
	}
	return nil
}

// maxLabelIDs bounds how many Labels an annotation names.
const maxLabelIDs = 100

// take puts a Cluster on the Labels that its annotation names, by the names of their objects, and then removes the annotation: this is how
// pages put Labels on a Cluster that they create. Names of no Label are left out. Whoever writes the Cluster puts it on Labels, and nothing
// else of them is changed.
func (r *LabelReconciler) take(ctx context.Context, c *clusterv1alpha1.Cluster, ids string) error {
	for i, id := range strings.Split(ids, ",") {
		id = strings.TrimSpace(id)
		if i >= maxLabelIDs {
			break
		}
		if len(validation.IsDNS1123Subdomain(id)) > 0 {
			continue
		}
		l := &clusterv1alpha1.Label{}
		err := r.Live.Get(ctx, types.NamespacedName{Name: id}, l)
		if apierrors.IsNotFound(err) || err == nil && (!l.DeletionTimestamp.IsZero() || slices.Contains(l.Spec.Clusters, c.Name)) {
			continue
		}
		if err == nil {
			before := l.DeepCopy()
			l.Spec.Clusters = append(l.Spec.Clusters, c.Name)
			err = r.Client.Patch(ctx, l, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("put the label %q on the cluster %q: %w", id, c.Name, err)
		}
	}
	before := c.DeepCopy()
	delete(c.Annotations, clusterv1alpha1.AnnotationLabelIDs)
	err := r.Client.Patch(ctx, c, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the annotation %s of the cluster %q: %w", clusterv1alpha1.AnnotationLabelIDs, c.Name, err)
	}
	return nil
}

// labelled returns the clusters that a Label is on, or was.
func (r *LabelReconciler) labelled(ctx context.Context, o client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, name := range o.(*clusterv1alpha1.Label).Spec.Clusters {
		out = append(out, request(name))
	}
	marked := &clusterv1alpha1.ClusterList{}
	if err := r.Client.List(ctx, marked, client.HasLabels{clusterv1alpha1.LabelClusterLabelPrefix + o.GetName()},
		client.UnsafeDisableDeepCopy); err != nil {
		klog.ErrorS(err, "Can't list the clusters that have a label", "label", o.GetName())
		return out
	}
	for i := range marked.Items {
		out = append(out, request(marked.Items[i].Name))
	}
	return out
}
