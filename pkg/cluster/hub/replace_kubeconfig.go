package hub

import (
	"bytes"
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
)

// ReplaceKubeconfig puts a kubeconfig in the place of one that the Cluster of a member has. One that has been changed meanwhile stays.
func (h *Hub) ReplaceKubeconfig(ctx context.Context, m *cluster.Member, old, next []byte) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		raw, err := h.Clusters.Get(ctx, m.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read the cluster %q: %w", m.Name, err)
		}
		c := &clusterv1alpha1.Cluster{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, c); err != nil {
			return fmt.Errorf("read the cluster %q: %w", m.Name, err)
		}
		if string(c.UID) != m.UID || !bytes.Equal(c.Spec.Connection.KubeConfig, old) {
			return nil
		}
		c.Spec.Connection.KubeConfig = next
		return h.write(ctx, c)
	})
}
