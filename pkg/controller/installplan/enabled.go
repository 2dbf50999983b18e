package installplan

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensionsv1alpha1 "kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// extensionLists are empty lists of the kinds that extensions consist of.
func extensionLists() []client.ObjectList {
	return []client.ObjectList{&extensionsv1alpha1.APIServiceList{}, &extensionsv1alpha1.ExtensionEntryList{}, &extensionsv1alpha1.JSBundleList{},
		&extensionsv1alpha1.ReverseProxyList{}}
}

// setEnabled lets the objects of an extension be served, or not.
func (r *Reconciler) setEnabled(ctx context.Context, plan *v1alpha1.InstallPlan) error {
	want, other := extensionsv1alpha1.StateAvailable, extensionsv1alpha1.StateDisabled
	if !plan.Spec.Enabled {
		want, other = other, want
	}
	for _, list := range extensionLists() {
		if err := r.Client.List(ctx, list, client.MatchingLabels{v1alpha1.LabelExtension: plan.Name}); err != nil {
			return fmt.Errorf("list the objects of the extension %s: %w", plan.Name, err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return err
		}
		for _, item := range items {
			o, ok := item.DeepCopyObject().(client.Object)
			if !ok {
				continue
			}
			state := stateOf(o)
			if state == nil || *state != other {
				continue
			}
			stored := o.DeepCopyObject().(client.Object) //nolint:forcetypeassert // it is a copy
			*state = want
			if err := r.Client.Patch(ctx, o, client.MergeFrom(stored)); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("set the state of %s to %s: %w", o.GetName(), want, err)
			}
		}
	}
	plan.Status.Enabled = plan.Spec.Enabled
	return nil
}

func stateOf(o client.Object) *string {
	switch o := o.(type) {
	case *extensionsv1alpha1.JSBundle:
		return &o.Status.State
	case *extensionsv1alpha1.APIService:
		return &o.Status.State
	case *extensionsv1alpha1.ReverseProxy:
		return &o.Status.State
	case *extensionsv1alpha1.ExtensionEntry:
		return &o.Status.State
	}
	return nil
}
