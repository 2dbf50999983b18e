package fleet

import (
	"context"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster/deployment"
	"kapis.dev/ks-apiserver/pkg/cluster/direct"
	"kapis.dev/ks-apiserver/pkg/cluster/lite"

	"k8s.io/client-go/kubernetes"
)

// isLite reports whether no program of ours runs in a cluster.
func isLite(c *clusterv1alpha1.Cluster) bool {
	return c.Annotations[clusterv1alpha1.AnnotationLite] == "true"
}

// liteDeployment returns the objects, as YAML, that the administrator of a lite member applies there.
func (h *Hub) liteDeployment(c *clusterv1alpha1.Cluster) ([]byte, error) {
	return deployment.LiteYAML(h.UID, c.Name)
}

// consents returns the check that fails where the administrator of a lite member has not said yes.
func (h *Hub) consents(ctx context.Context, name string, kubeconfig []byte) []direct.Finding {
	c, err := direct.Parse(kubeconfig, h.dialing.Transport)
	if err != nil {
		return nil // it has been said
	}
	client, err := kubernetes.NewForConfig(c)
	if err == nil {
		_, err = lite.Consent(ctx, client, h.UID, name)
	}
	if err != nil {
		return []direct.Finding{{Check: "consent", Found: err.Error()}}
	}
	return nil
}
