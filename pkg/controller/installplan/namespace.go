package installplan

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

// labelManaged marks namespaces that the platform manages.
const labelManaged = "kubesphere.io/managed"

// namespace makes the namespace of a release, where it is the extension's own. One of that name that is not the extension's is left alone:
// it may be somebody's, and the extension's pods would have what is in it.
func (r *Reconciler) namespace(ctx context.Context, extension, name string) error {
	own := name == v1alpha1.ExtensionNamespace(extension)
	is := &corev1.Namespace{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, is)
	switch {
	case apierrors.IsNotFound(err):
		is = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			tenantv1beta1.LabelWorkspace: tenantv1beta1.SystemWorkspace, labelManaged: "true", v1alpha1.LabelExtension: extension}}}
		if err := r.Client.Create(ctx, is); err != nil {
			return fmt.Errorf("make the namespace of the extension %s: %w", extension, err)
		}
		return nil
	case err != nil:
		return err
	case !is.DeletionTimestamp.IsZero():
		return waitsFor(chartAgain, v1alpha1.ConditionInitialized, "NamespaceTerminating", "the namespace %s is being deleted", name)
	case own && is.Labels[v1alpha1.LabelExtension] != extension:
		return waitsFor(chartAgain, v1alpha1.ConditionInitialized, "NamespaceTaken",
			"there is a namespace %s, and it is not this extension's: it has not the label %s=%s", name, v1alpha1.LabelExtension, extension)
	}
	return nil
}
