package installplan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
)

// dependencies returns nil where the extensions that a version needs are installed in a version that suits, and in use.
func (r *Reconciler) dependencies(ctx context.Context, plan *v1alpha1.InstallPlan, v *v1alpha1.ExtensionVersion) error {
	var unmet []string
	for _, d := range v.Spec.ExternalDependencies {
		if !d.Required || d.Type != "" && d.Type != "extension" {
			continue
		}
		other := &v1alpha1.InstallPlan{}
		err := r.Client.Get(ctx, client.ObjectKey{Name: d.Name}, other)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		switch {
		case err != nil || !isInstalled(&other.Status.InstallationStatus):
			unmet = append(unmet, fmt.Sprintf("%s %s is not installed", d.Name, d.Version))
		case !chart.Allows(d.Version, other.Status.Version):
			unmet = append(unmet, fmt.Sprintf("%s is installed in version %s, and %s is needed", d.Name, other.Status.Version, d.Version))
		case !other.Spec.Enabled:
			unmet = append(unmet, d.Name+" is disabled")
		case !other.DeletionTimestamp.IsZero():
			unmet = append(unmet, d.Name+" is being removed")
		}
	}
	if len(unmet) == 0 {
		return nil
	}
	return waits(v1alpha1.ConditionDependenciesMet, "DependenciesMissing", "%s needs other extensions: %s", plan.Name,
		strings.Join(unmet, "; "))
}

// required returns the installed extensions that need one.
func (r *Reconciler) required(ctx context.Context, extension string) ([]string, error) {
	plans := &v1alpha1.InstallPlanList{}
	if err := r.Client.List(ctx, plans); err != nil {
		return nil, err
	}
	var out []string
	for i := range plans.Items {
		p := &plans.Items[i]
		if p.Name == extension || !isInstalled(&p.Status.InstallationStatus) {
			continue
		}
		v := &v1alpha1.ExtensionVersion{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.ExtensionVersionName(p.Name, p.Status.Version)}, v); err != nil {
			if client.IgnoreNotFound(err) == nil {
				continue
			}
			return nil, err
		}
		needs := func(d v1alpha1.ExternalDependency) bool { return d.Required && d.Name == extension }
		if slices.ContainsFunc(v.Spec.ExternalDependencies, needs) {
			out = append(out, p.Name)
		}
	}
	return out, nil
}
