package hub

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
)

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
