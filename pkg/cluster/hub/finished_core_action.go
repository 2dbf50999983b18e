package hub

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
)

// Acted removes the annotation that says what is to be done with our programs in a member, which has been done. One that has been changed
// meanwhile stays.
func (h *Hub) Acted(ctx context.Context, m *cluster.Member) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		raw, err := h.Clusters.Get(ctx, m.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read the cluster %q: %w", m.Name, err)
		}
		annotations := raw.GetAnnotations()
		if string(raw.GetUID()) != m.UID || annotations[clusterv1alpha1.AnnotationCoreAction] != string(m.Action) {
			return nil
		}
		delete(annotations, clusterv1alpha1.AnnotationCoreAction)
		raw.SetAnnotations(annotations)
		_, err = h.Clusters.Update(ctx, raw, metav1.UpdateOptions{})
		return err
	})
}
