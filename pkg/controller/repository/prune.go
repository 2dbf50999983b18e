package repository

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// pruning is what was removed.
type pruning struct{ changed, orphans bool }

// prune removes the versions of a repository that are not wanted; nil wants none. Those in use stay, with a condition.
func (r *Reconciler) prune(ctx context.Context, repository string, w *wants) (pruning, error) {
	var out pruning
	all := &v1alpha1.ExtensionVersionList{}
	if err := r.client.List(ctx, all, client.MatchingLabels{v1alpha1.LabelRepository: repository}); err != nil {
		return out, fmt.Errorf("list ExtensionVersions: %w", err)
	}
	var plans *v1alpha1.InstallPlanList
	for i := range all.Items {
		v := &all.Items[i]
		extension := v.Labels[v1alpha1.LabelExtension]
		if !v.DeletionTimestamp.IsZero() || w != nil && (w.versions[v.Name] != nil || w.unclear[extension]) {
			continue
		}
		if plans == nil { // what is installed is not left to a cache
			plans = &v1alpha1.InstallPlanList{}
			if err := r.live.List(ctx, plans); err != nil {
				return out, fmt.Errorf("list InstallPlans: %w", err)
			}
		}
		if slices.ContainsFunc(plans.Items, func(p v1alpha1.InstallPlan) bool { return p.Uses(extension, v.Spec.Version) }) {
			out.orphans = true
			marked, err := r.orphan(ctx, v, w)
			if err != nil {
				return out, err
			}
			out.changed = out.changed || marked
			continue
		}
		version := v.ResourceVersion
		err := r.client.Delete(ctx, v, client.Preconditions{UID: &v.UID, ResourceVersion: &version})
		if err != nil && !apierrors.IsNotFound(err) {
			return out, fmt.Errorf("delete the ExtensionVersion %s: %w", v.Name, err)
		}
		out.changed = true
	}
	return out, nil
}

// orphan notes that a version stays only because it is in use.
func (r *Reconciler) orphan(ctx context.Context, v *v1alpha1.ExtensionVersion, w *wants) (changed bool, err error) {
	c := metav1.Condition{Type: v1alpha1.ConditionOrphaned, Status: metav1.ConditionTrue, Reason: "NotInRepository",
		Message: "its repository has it no more, or is gone itself; it goes when no InstallPlan uses it"}
	if w != nil && w.lower[v.Name] {
		c.Reason = "BeyondDepth"
		c.Message = "it is lower than the versions that spec.depth of its repository takes; it goes when no InstallPlan uses it"
	}
	before := v.DeepCopy()
	if !meta.SetStatusCondition(&v.Status.Conditions, c) {
		return false, nil
	}
	if err := r.client.Patch(ctx, v, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return false, fmt.Errorf("note that the ExtensionVersion %s is an orphan: %w", v.Name, err)
	}
	return true, nil
}

// pruneOrphans removes the versions that stayed because they were in use, and are no more.
func (r *Reconciler) pruneOrphans(ctx context.Context, repository string, last read) error {
	all := &v1alpha1.ExtensionVersionList{}
	if err := r.client.List(ctx, all, client.MatchingLabels{v1alpha1.LabelRepository: repository}); err != nil {
		return fmt.Errorf("list ExtensionVersions: %w", err)
	}
	keep := &wants{versions: map[string]*wanted{}, lower: map[string]bool{}}
	for i := range all.Items {
		v := &all.Items[i]
		c := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionOrphaned)
		if c == nil || c.Status != metav1.ConditionTrue {
			keep.versions[v.Name] = &wanted{}
		} else if c.Reason == "BeyondDepth" {
			keep.lower[v.Name] = true
		}
	}
	left, err := r.prune(ctx, repository, keep)
	if err != nil {
		return err
	}
	if !left.orphans {
		r.reads.Edit(repository, func(is *read) { is.orphans = is.orphans && is.uid != last.uid })
	}
	return nil
}
