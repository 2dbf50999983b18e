package installplan

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/patch"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
)

// hostAgent is the agent of an extension in the hub's own cluster, where the plan's placement names that: a release beside the extension's,
// of the version that runs, in the same namespace and by the same approval. It is done as a member does it, and its state is that of the
// host among those of the members.
type hostAgent struct{ *Reconciler }

// reconciler returns the reconciler of such agents.
func (h hostAgent) reconciler() *Reconciler {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hubAgents == nil {
		h.hubAgents = &Reconciler{Client: h.Client, Live: h.Live, Workloads: h.Workloads, Mapper: h.Mapper, Config: h.Config, Events: h.Events,
			Now: h.Now, Options: h.Options, onHub: true}
		h.hubAgents.Member = true
	}
	return h.hubAgents
}

// writer returns a writer of the plan as the agent sees it: with its own state, and the version that runs on the hub.
func (h hostAgent) writer(of *writer) *writer {
	plan := of.Object.DeepCopy()
	plan.Status = v1alpha1.InstallPlanStatus{InstallationStatus: of.Object.Status.ClusterSchedulingStatuses[h.Host]}
	plan.Spec.Extension.Version = of.Object.Status.Version
	metav1.SetMetaDataAnnotation(&plan.ObjectMeta, v1alpha1.AnnotationAgentCluster, h.Host)
	metav1.SetMetaDataAnnotation(&plan.ObjectMeta, v1alpha1.AnnotationOperation, of.Object.Annotations[v1alpha1.AnnotationAgentOperation])
	return patch.Folded(plan, func(ctx context.Context) error {
		if of.Object.Status.ClusterSchedulingStatuses == nil {
			of.Object.Status.ClusterSchedulingStatuses = map[string]v1alpha1.InstallationStatus{}
		}
		of.Object.Status.ClusterSchedulingStatuses[h.Host] = *plan.Status.InstallationStatus.DeepCopy()
		if id := plan.Annotations[v1alpha1.AnnotationOperation]; id != "" {
			metav1.SetMetaDataAnnotation(&of.Object.ObjectMeta, v1alpha1.AnnotationAgentOperation, id)
		}
		return of.Write(ctx)
	})
}

// placed reports whether a plan wants an agent in the hub's own cluster, of the version that runs. Where it can't be told, one that is
// there stays; for a selector that can't be read, with the reason.
func (h hostAgent) placed(ctx context.Context, plan *v1alpha1.InstallPlan) (bool, error) {
	if plan.Spec.ClusterScheduling == nil {
		return false, nil
	}
	c := &clusterv1alpha1.Cluster{}
	if err := h.Client.Get(ctx, client.ObjectKey{Name: h.Host}, c); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read the labels of this cluster: %w", err)
	}
	_, has := plan.Status.ClusterSchedulingStatuses[h.Host] // what runs goes on
	if placed, err := plan.PlacedOn(h.Host, c.Labels); err != nil {
		return has, waits(v1alpha1.ConditionInitialized, "InvalidPlacement", "%v", err)
	} else if !placed {
		return false, nil
	}
	v := &v1alpha1.ExtensionVersion{}
	err := h.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.ExtensionVersionName(plan.Name, plan.Status.Version)}, v)
	if apierrors.IsNotFound(err) {
		return has, nil
	}
	return v.Spec.InstallationMode == v1alpha1.InstallationMulticluster, err
}

// update installs, upgrades or removes the agent, and returns when it is looked at again; 0 for when something changes.
func (h hostAgent) update(ctx context.Context, of *writer) (again time.Duration, err error) {
	plan := of.Object
	if h.Member || h.Host == "" {
		return 0, nil
	}
	placed, err := h.placed(ctx, plan)
	_, unreadable := asWaiting(err)
	if err != nil && !unreadable {
		return 0, err
	}
	if !placed {
		err = h.remove(ctx, of, false)
		if reason, ok := asWaiting(err); ok {
			again, err = reason.again, nil
		}
		return again, err
	}
	r, w := h.reconciler(), h.writer(of)
	s := &w.Object.Status.InstallationStatus
	if s.State == "" {
		enter(s, v1alpha1.StatePreparing, h.Now())
	}
	if err := (records{r}).adopt(ctx, w.Object); err != nil {
		return 0, err
	}
	switch {
	case unreadable:
	case plan.Annotations[v1alpha1.AnnotationApprovedPlacement] != permission.PlacementOf(&plan.Spec):
		err = waits(v1alpha1.ConditionApproved, "NotApproved", "nobody has approved this placement: who may approve the plan, approves it by "+
			"`kubectl annotate installplan %s %s=yes`", plan.Name, v1alpha1.AnnotationApprove)
	default:
		result, failed := r.update(ctx, w)
		again, err = result.RequeueAfter, failed
	}
	later, err := noted(s, err, h.Now())
	if isInstalled(s) && again != observeAfter { // else it was applied a moment ago
		err = errors.Join(err, r.observe(ctx, w.Object))
	}
	return sooner(again, later), errors.Join(err, w.Write(ctx))
}

// remove removes the agent.
func (h hostAgent) remove(ctx context.Context, of *writer, force bool) error {
	plan := of.Object
	state, has := plan.Status.ClusterSchedulingStatuses[h.Host]
	if h.Member || h.Host == "" || !has {
		return nil
	}
	if state.TargetNamespace != "" {
		r, w := h.reconciler(), h.writer(of)
		s := &w.Object.Status.InstallationStatus
		if s.State != v1alpha1.StateUninstalling {
			enter(s, v1alpha1.StateUninstalling, h.Now())
			if err := w.Write(ctx); err != nil {
				return err
			}
		}
		kept, err := r.uninstall(ctx, w.Object, force)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !force {
			enter(s, v1alpha1.StateUninstallFailed, h.Now())
			if failed := w.Write(ctx); failed != nil {
				return failed
			}
			return waitsFor(removeAgain, v1alpha1.ConditionUninstalled, "AgentFailed", "the agent in this cluster can't be removed: %v", err)
		}
		if len(kept) > 0 {
			h.event(plan, corev1.EventTypeWarning, "Kept", "left of the agent in this cluster: "+strings.Join(kept, "; "))
		}
		if err := (records{r}).kept().Delete(ctx, records{r}.name(plan)); err != nil {
			return err
		}
	}
	delete(plan.Status.ClusterSchedulingStatuses, h.Host)
	delete(plan.Annotations, v1alpha1.AnnotationAgentOperation)
	return of.Write(ctx)
}
