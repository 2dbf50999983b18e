package hub

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/status"
)

// clip bounds a text that a member sends.
func clip(s string) string { return status.Clip(s, 64) }

func (h *Hub) list(ctx context.Context) ([]clusterv1alpha1.Cluster, error) {
	list, err := h.Clusters.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the clusters: %w", err)
	}
	out := make([]clusterv1alpha1.Cluster, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &out[i]); err != nil {
			return nil, fmt.Errorf("read the cluster %q: %w", list.Items[i].GetName(), err)
		}
	}
	return out, nil
}

func (h *Hub) write(ctx context.Context, c *clusterv1alpha1.Cluster) error {
	c.APIVersion, c.Kind = clusterv1alpha1.SchemeGroupVersion.String(), "Cluster"
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		return fmt.Errorf("write the cluster %q: %w", c.Name, err)
	}
	_, err = h.Clusters.Update(ctx, &unstructured.Unstructured{Object: raw}, metav1.UpdateOptions{})
	return err
}

// set sets a condition, and reports whether that changed anything.
func (h *Hub) set(c *clusterv1alpha1.Cluster, of clusterv1alpha1.ClusterConditionType, to corev1.ConditionStatus,
	reason, message string) bool {
	now := metav1.Time{Time: h.Now().UTC().Truncate(time.Second)}
	next := clusterv1alpha1.ClusterCondition{Type: of, Status: to, LastUpdateTime: now, LastTransitionTime: now,
		Reason: reason, Message: message}
	old := c.Status.Condition(of)
	if old == nil {
		c.Status.Conditions = append(c.Status.Conditions, next)
		return true
	}
	if old.Status == to && old.Reason == reason && old.Message == message {
		return false
	}
	if old.Status == to {
		next.LastTransitionTime = old.LastTransitionTime
	}
	*old = next
	return true
}
