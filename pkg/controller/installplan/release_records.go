package installplan

import (
	"context"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/extensionrelease"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// records are what is known of the Helm releases of plans.
type records struct{ *Reconciler }

func (r records) kept() extensionrelease.Records {
	return extensionrelease.Records{Client: r.Client, Live: r.Live, Mapper: r.Mapper}
}

// recordName names the note of the release of a plan; the agent in the hub's own cluster has its own.
func (r records) name(plan *v1alpha1.InstallPlan) string {
	if r.onHub {
		return "extension-agent-" + string(plan.UID)
	}
	return "extension-release-" + string(plan.UID)
}

// adopt notes, once after the start, the records of a release that was installed before records were noted.
func (r records) adopt(ctx context.Context, plan *v1alpha1.InstallPlan) error {
	if uid, _ := r.adopted.Load(plan.Name); uid == plan.UID || !isInstalled(&plan.Status.InstallationStatus) {
		return nil
	}
	namespace := plan.Status.TargetNamespace
	err := r.kept().Adopt(ctx, r.name(plan), namespace, func() (*helm.Result, error) {
		request, err := r.helmRequest(plan.Name, namespace)
		if err != nil {
			return nil, err
		}
		request.Operation = helm.Status
		return r.Helm.Run(ctx, *request, (&record{}).note)
	})
	if err == nil {
		r.adopted.Store(plan.Name, plan.UID)
	}
	return err
}

// ended notes what an operation has left, if one of the records is its own: the newest one may be somebody else's word still.
func (r records) ended(ctx context.Context, want *wanted, o *operation, result *helm.Result, failed error) error {
	if ctx.Err() != nil || result == nil || !result.Release.IsAfter(o.rendered.Release) {
		return nil //nolint:nilerr // what failed is told by who calls
	}
	return r.kept().End(ctx, r.name(want.plan), o.note, result, o.believed, failed == nil || result.RolledBack)
}
