package installplan

import (
	"context"
	"strings"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/extensionrelease"
)

// dependencies returns nil where the extensions that a version needs are installed in a version that suits, and in use.
func (r *Reconciler) dependencies(ctx context.Context, plan *v1alpha1.InstallPlan, v *v1alpha1.ExtensionVersion) error {
	unmet, err := extensionrelease.Unmet(ctx, r.Client, plan.Name, v)
	if err != nil || len(unmet) == 0 {
		return err
	}
	return waits(v1alpha1.ConditionDependenciesMet, "DependenciesMissing", "%s needs other extensions: %s", plan.Name,
		strings.Join(unmet, "; "))
}
