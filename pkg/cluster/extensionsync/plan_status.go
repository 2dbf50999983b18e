package extensionsync

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// maxMessage, maxConditions and maxHistory bound what is kept of what a member says of an agent.
	maxMessage    = 1 << 10
	maxConditions = 16
	maxHistory    = 10
	// reasonNotSent and reasonChartNotRead are reasons of the condition Initialized: of the hub, which could not send an agent, and of a
	// member that has lost its chart.
	reasonNotSent      = "NotSent"
	reasonChartNotRead = "ChartNotRead"
)

// isSettled reports whether a member has done what it can for an agent.
func isSettled(has *Installed) bool {
	if has.Leaving {
		return false
	}
	switch has.Status.State {
	case v1alpha1.StateInstalled, v1alpha1.StateInstallFailed, v1alpha1.StateUpgradeFailed, v1alpha1.StateUninstallFailed:
		return true
	case v1alpha1.StatePreparing: // what it lacks may take days
		return meta.IsStatusConditionFalse(has.Status.Conditions, v1alpha1.ConditionApproved) ||
			meta.IsStatusConditionFalse(has.Status.Conditions, v1alpha1.ConditionInitialized)
	}
	return false
}

// lacksChart reports whether a member can't read the chart that it was sent.
func lacksChart(s *v1alpha1.InstallationStatus) bool {
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionInitialized)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reasonChartNotRead
}

// entryOf returns what a plan says of one member, nil for nothing.
func entryOf(found bool, has *Installed, placed bool, trouble string) *v1alpha1.InstallationStatus {
	if !found && !placed {
		return nil
	}
	out := &v1alpha1.InstallationStatus{State: v1alpha1.StatePreparing}
	if found {
		out = bounded(&has.Status)
	}
	if has.Leaving && out.State != v1alpha1.StateUninstallFailed {
		out.State = v1alpha1.StateUninstalling
	}
	if trouble != "" {
		meta.SetStatusCondition(&out.Conditions, metav1.Condition{Type: v1alpha1.ConditionInitialized, Status: metav1.ConditionFalse,
			Reason: reasonNotSent, Message: trouble})
	}
	return out
}

// bounded returns a state as a member says it, cut to what a plan may have.
func bounded(s *v1alpha1.InstallationStatus) *v1alpha1.InstallationStatus {
	out := &v1alpha1.InstallationStatus{State: status.Clip(s.State, 63), Version: status.Clip(s.Version, 64),
		ConfigHash: status.Clip(s.ConfigHash, 128), TargetNamespace: status.Clip(s.TargetNamespace, 63),
		ReleaseName: status.Clip(s.ReleaseName, 63)}
	history := s.StateHistory[max(0, len(s.StateHistory)-maxHistory):]
	for _, h := range history {
		h.State = status.Clip(h.State, 63)
		out.StateHistory = append(out.StateHistory, h)
	}
	for _, c := range s.Conditions[:min(len(s.Conditions), maxConditions)] {
		c.Message = status.Clip(c.Message, maxMessage)
		out.Conditions = append(out.Conditions, c)
	}
	return out
}

// fields are those of an InstallationStatus: a merge patch has to say of each that it is gone.
var fields = []string{"conditions", "configHash", "jobName", "releaseName", "state", "stateHistory", "targetNamespace", "version"}

// note writes what a plan says of a member, if that has changed.
func (r *round) note(ctx context.Context, p *v1alpha1.InstallPlan, member string, next *v1alpha1.InstallationStatus) error {
	now, has := p.Status.ClusterSchedulingStatuses[member]
	if next == nil && !has || next != nil && has && same(&now, next) {
		return nil
	}
	var entry any
	if next != nil {
		raw, err := json.Marshal(next)
		if err != nil {
			return fmt.Errorf("encode the state of an agent: %w", err)
		}
		values := map[string]any{}
		if err := json.Unmarshal(raw, &values); err != nil {
			return fmt.Errorf("encode the state of an agent: %w", err)
		}
		for _, field := range fields {
			if _, ok := values[field]; !ok {
				values[field] = nil
			}
		}
		entry = values
	}
	body := map[string]any{"metadata": map[string]any{"uid": p.UID},
		"status": map[string]any{"clusterSchedulingStatuses": map[string]any{member: entry}}}
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the state of an agent: %w", err)
	}
	_, err = r.Plans.Patch(ctx, p.Name, types.MergePatchType, raw, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // its end, or its next version, is looked at next
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the state of %s in the cluster %q: %w", p.Name, member, err)
	}
	return nil
}

// same reports whether two states say the same: a condition that the hub sets has no time of its own.
func same(a, b *v1alpha1.InstallationStatus) bool {
	timeless := func(s *v1alpha1.InstallationStatus) *v1alpha1.InstallationStatus {
		out := s.DeepCopy()
		for i := range out.Conditions {
			if out.Conditions[i].Reason == reasonNotSent {
				out.Conditions[i].LastTransitionTime = metav1.Time{}
			}
		}
		return out
	}
	return equality.Semantic.DeepEqual(timeless(a), timeless(b))
}
