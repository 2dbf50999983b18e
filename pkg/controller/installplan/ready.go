package installplan

import (
	"context"
	"time"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// observeAfter is when workloads are looked at after an operation: until then the cache may not have them.
const observeAfter = 2 * time.Second

// observe notes whether the workloads of an extension are ready.
func (r *Reconciler) observe(ctx context.Context, plan *v1alpha1.InstallPlan) error {
	s := &plan.Status.InstallationStatus
	is, err := records{r}.kept().Readiness(ctx, r.Workloads, plan.Name, s.TargetNamespace)
	if err != nil {
		return err
	}
	say(s, v1alpha1.ConditionReady, is.Ready, is.Reason, is.Message, r.Now())
	return nil
}
