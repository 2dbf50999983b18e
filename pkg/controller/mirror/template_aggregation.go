package mirror

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/aggregation"
)

// aggregate updates the role's rules from its templates.
func (r *Reconciler) aggregate(ctx context.Context, role client.Object) error {
	if !aggregation.Wanted(r.Kind.Fields(role)) {
		return nil
	}
	templates := &iamv1beta1.RoleTemplateList{}
	if err := r.Client.List(ctx, templates, client.MatchingLabels{iamv1beta1.LabelScope: r.Kind.Scope},
		client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list role templates of scope %s: %w", r.Kind.Scope, err)
	}
	before := role.DeepCopyObject().(client.Object)
	fields := r.Kind.Fields(role)
	_, wrong := iamv1beta1.ValidRules(*fields.Rules)
	changed, err := aggregation.Aggregate(fields, templates.Items)
	if err != nil {
		// Only an edit of the role can repair this, and that causes an event. Until then its rules stay, and are mirrored.
		klog.ErrorS(err, "Can't aggregate the rules of a role", "kind", r.Kind.Name, "role", klog.KObj(role))
		r.Writer.Events.Eventf(role, nil, corev1.EventTypeWarning, "NotAggregated", "Aggregate", "%v", err)
		return nil
	}
	for i := range templates.Items {
		t := &templates.Items[i]
		if fields.Templates == nil || !slices.Contains(fields.Templates.TemplateNames, t.Name) {
			continue
		}
		if _, wrong := iamv1beta1.ValidRules(t.Spec.Rules); wrong != nil {
			r.ignored(t, wrong)
		}
	}
	if !changed {
		return nil
	}
	if wrong != nil { // they are removed by this write, and wanted does not find them
		r.ignored(role, wrong)
	}
	if err := r.Client.Patch(ctx, role, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write the rules of %s %q: %w", r.Kind.Name, role.GetName(), err)
	}
	return nil
}
