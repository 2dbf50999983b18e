package installplan

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/enqueue"
)

const (
	// agentsAgain is when a removal that waits for agents looks again, and agentsWait how long it waits for them.
	agentsAgain = 5 * time.Second
	agentsWait  = 10 * time.Minute
)

// agents are those of extensions in the members of the fleet, as far as this controller knows them.
type agents struct{ *Reconciler }

// concerned returns the plans that clusters matter to.
func (r agents) concerned(ctx context.Context, _ client.Object) []reconcile.Request {
	plans := &v1alpha1.InstallPlanList{}
	if err := r.Client.List(ctx, plans); err != nil {
		klog.ErrorS(err, "list the plans with agents")
		return nil
	}
	var out []reconcile.Request
	for i := range plans.Items {
		if p := &plans.Items[i]; p.Spec.ClusterScheduling != nil || len(p.Status.ClusterSchedulingStatuses) > 0 {
			out = append(out, enqueue.Named(p.Name)...)
		}
	}
	return out
}

// members returns the members of the fleet by name.
func (r agents) members(ctx context.Context) (map[string]*clusterv1alpha1.Cluster, error) {
	list := &clusterv1alpha1.ClusterList{}
	if err := r.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list the clusters of the fleet: %w", err)
	}
	out := map[string]*clusterv1alpha1.Cluster{}
	for i := range list.Items {
		if _, host := list.Items[i].Labels[clusterv1alpha1.LabelHostCluster]; !host {
			out[list.Items[i].Name] = &list.Items[i]
		}
	}
	return out, nil
}

// place notes which members are to have an agent, and forgets those that have left the fleet. Everything else of an agent is noted by
// ks-apiserver, which has the links to members (package cluster/extensionsync).
func (r agents) place(ctx context.Context, plan *v1alpha1.InstallPlan) error {
	s := &plan.Status
	if r.Member || plan.Spec.ClusterScheduling == nil && len(s.ClusterSchedulingStatuses) == 0 {
		return nil
	}
	all, err := r.members(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(s.ClusterSchedulingStatuses, func(name string, _ v1alpha1.InstallationStatus) bool {
		return all[name] == nil && name != r.Host
	})
	v := &v1alpha1.ExtensionVersion{}
	// What runs on the hub is what members get.
	name := v1alpha1.ExtensionVersionName(plan.Name, cmp.Or(s.Version, plan.Spec.Extension.Version))
	err = r.Client.Get(ctx, client.ObjectKey{Name: name}, v)
	if err != nil || v.Spec.InstallationMode != v1alpha1.InstallationMulticluster {
		return client.IgnoreNotFound(err)
	}
	for name, c := range all {
		if placed, err := plan.PlacedOn(name, c.Labels); err != nil || !placed {
			continue
		}
		if err := r.record(ctx, c, plan.Name, false); err != nil {
			return err
		}
		if _, ok := s.ClusterSchedulingStatuses[name]; ok {
			continue
		}
		agent := v1alpha1.InstallationStatus{}
		enter(&agent, v1alpha1.StatePreparing, r.Now())
		say(&agent, v1alpha1.ConditionInitialized, false, "Waiting", "the cluster is told once it is approved for it, the extension is "+
			"installed on the hub, and the cluster is linked", r.Now())
		if s.ClusterSchedulingStatuses == nil {
			s.ClusterSchedulingStatuses = map[string]v1alpha1.InstallationStatus{}
		}
		s.ClusterSchedulingStatuses[name] = agent
	}
	return nil
}

// remove reports whether a plan that is deleted has to wait for agents: those of members that are there, for a while. What is left in
// others is noted with their Clusters, and removed when they are back: no member keeps a plan for ever.
func (r agents) remove(ctx context.Context, plan *v1alpha1.InstallPlan, force bool) (wait bool, err error) {
	s := &plan.Status
	if len(s.ClusterSchedulingStatuses) == 0 {
		return false, nil
	}
	all, err := r.members(ctx)
	if err != nil {
		return false, err
	}
	late := force || plan.DeletionTimestamp.IsZero() || r.Now().Sub(plan.DeletionTimestamp.Time) > agentsWait
	var waits, left []string
	for _, name := range slices.Sorted(maps.Keys(s.ClusterSchedulingStatuses)) {
		c := all[name]
		if c != nil && !late && c.WhyNotReady() == "" {
			waits = append(waits, name)
			continue
		}
		if c != nil {
			if err := r.record(ctx, c, plan.Name, true); err != nil {
				return false, err
			}
			left = append(left, name)
		}
		delete(s.ClusterSchedulingStatuses, name)
	}
	if len(left) > 0 {
		r.event(plan, corev1.EventTypeWarning, "AgentsLeft", "removed once they answer: the agents in "+strings.Join(left, ", "))
	}
	if len(waits) > 0 {
		say(&s.InstallationStatus, v1alpha1.ConditionUninstalled, false, "AgentsFirst", "agents are being removed in "+
			strings.Join(waits, ", "), r.Now())
	}
	return len(waits) > 0, nil
}

// record notes with a Cluster that the agent of an extension is to be removed there, or takes that back.
func (r agents) record(ctx context.Context, c *clusterv1alpha1.Cluster, extension string, gone bool) error {
	names := v1alpha1.RemovedExtensions(c.Annotations)
	if slices.Contains(names, extension) == gone {
		return nil
	}
	if gone {
		names = append(names, extension)
	} else {
		names = slices.DeleteFunc(names, func(is string) bool { return is == extension })
	}
	slices.Sort(names)
	raw, err := json.Marshal(names)
	if err != nil {
		return fmt.Errorf("encode the extensions that are gone: %w", err)
	}
	stored := c.DeepCopy()
	changed := c.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, v1alpha1.AnnotationRemovedExtensions, string(raw))
	if len(names) == 0 {
		delete(changed.Annotations, v1alpha1.AnnotationRemovedExtensions)
	}
	// Two plans that end at once must not lose one another's name.
	err = r.Client.Patch(ctx, changed, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}))
	return client.IgnoreNotFound(err)
}
