package overview

import (
	"context"
	"encoding/json"
	"fmt"

	"kapis.dev/ks-apiserver/pkg/store/index"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Quota is what is used, and what may be.
type Quota struct {
	// Namespace is a namespace's name or, for the cluster, two quotation marks, as clients expect.
	Namespace string    `json:"namespace"`
	Data      QuotaData `json:"data"`
	Incomplete
}

// QuotaData are amounts by the names that ResourceQuotas have for them, such as count/deployments.apps
// and limits.cpu.
type QuotaData struct {
	Used corev1.ResourceList `json:"used"`
	// Hard and Left are of what a ResourceQuota limits.
	Hard corev1.ResourceList `json:"hard,omitempty"`
	Left corev1.ResourceList `json:"left,omitempty"`
}

// limited returns the kinds that a quota counts, and their names in quotas.
func limited() []struct {
	key corev1.ResourceName
	gvr schema.GroupVersionResource
} {
	return []struct {
		key corev1.ResourceName
		gvr schema.GroupVersionResource
	}{
		{"count/pods", core("pods")},
		{"count/services", core("services")},
		{"count/deployments.apps", apis("apps", "deployments")},
		{"count/statefulsets.apps", apis("apps", "statefulsets")},
		{"count/daemonsets.apps", apis("apps", "daemonsets")},
		{"count/jobs.batch", apis("batch", "jobs")},
		{"count/cronjobs.batch", apis("batch", "cronjobs")},
		{"count/ingresses.networking.k8s.io", apis("networking.k8s.io", "ingresses")},
		{"count/ingresses.extensions", apis("networking.k8s.io", "ingresses")}, // the name that it had before, which pages read
		{"persistentvolumeclaims", core("persistentvolumeclaims")},
	}
}

// ClusterQuota counts what is in the cluster.
func (s *Service) ClusterQuota(ctx context.Context) (*Quota, error) {
	q, err := s.used(ctx, "")
	if err != nil {
		return nil, err
	}
	q.Namespace = `""`
	return q, nil
}

// NamespaceQuota counts what is in a namespace, next to the limits of its ResourceQuotas and what they say is used. Where several limit
// the same, the lowest limit counts. Those with a scope are left out, since they don't limit the whole namespace.
func (s *Service) NamespaceQuota(ctx context.Context, namespace string) (*Quota, error) {
	q, err := s.used(ctx, namespace)
	if err != nil {
		return nil, err
	}
	q.Namespace = namespace
	snap, err := s.Store.Snapshot(ctx, core("resourcequotas"))
	if err != nil {
		return nil, err
	}
	var broken error
	snap.ByCreated(index.InNamespace(namespace)).Walk(0, false, func(ref *index.Ref) bool {
		var object corev1.ResourceQuota
		if broken = json.Unmarshal([]byte(snap.Record(ref).JSON.String()), &object); broken != nil {
			return false
		}
		if len(object.Spec.Scopes) == 0 && object.Spec.ScopeSelector == nil {
			q.Data.limit(&object)
		}
		return true
	})
	if broken != nil {
		return nil, fmt.Errorf("read a ResourceQuota of the namespace %s: %w", namespace, broken)
	}
	return q, nil
}

// used counts what is used.
func (s *Service) used(ctx context.Context, namespace string) (*Quota, error) {
	kinds := limited()
	gvrs := make([]schema.GroupVersionResource, len(kinds))
	for i, k := range kinds {
		gvrs[i] = k.gvr
	}
	snapshots, missing, err := s.snapshots(ctx, gvrs)
	if err != nil {
		return nil, err
	}
	q := &Quota{Incomplete: Incomplete{missing}, Data: QuotaData{Used: corev1.ResourceList{}}}
	for i, k := range kinds {
		if snapshots[i] != nil {
			q.Data.Used[k.key] = *resource.NewQuantity(int64(count(snapshots[i], namespace)), resource.DecimalSI)
		}
	}
	return q, nil
}

// limit adds a ResourceQuota. The counts made here are newer than those in the quota's status.
func (d *QuotaData) limit(q *corev1.ResourceQuota) {
	if d.Hard == nil {
		d.Hard, d.Left = corev1.ResourceList{}, corev1.ResourceList{}
	}
	for key, hard := range q.Spec.Hard {
		if _, ok := d.Used[key]; !ok {
			d.Used[key] = q.Status.Used[key]
		}
		if lowest, ok := d.Hard[key]; ok && lowest.Cmp(hard) <= 0 {
			continue
		}
		d.Hard[key] = hard
		left := hard.DeepCopy()
		left.Sub(d.Used[key])
		d.Left[key] = left
	}
}
