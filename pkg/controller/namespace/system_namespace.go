package namespace

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

// joinSystem puts a namespace of the system that is in no workspace into the system's, managed and protected from deletion, as consoles
// expect (D8). It does so once: who takes it out again has decided. Nobody is due a right there for having made it.
func (r *Reconciler) joinSystem(ctx context.Context, ns *metav1.PartialObjectMetadata) error {
	if !tenantv1beta1.IsSystemNamespace(ns.Name) || ns.Labels[tenantv1beta1.LabelWorkspace] != "" || ns.Annotations[AnnotationInitialized] != "" {
		return nil
	}
	w := &tenantv1beta1.Workspace{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: tenantv1beta1.SystemWorkspace}, w)
	if err != nil || !w.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	before := ns.DeepCopy()
	metav1.SetMetaDataLabel(&ns.ObjectMeta, tenantv1beta1.LabelWorkspace, tenantv1beta1.SystemWorkspace)
	metav1.SetMetaDataLabel(&ns.ObjectMeta, tenantv1beta1.LabelManaged, "true")
	metav1.SetMetaDataLabel(&ns.ObjectMeta, tenantv1beta1.LabelProtectedResource, "true")
	metav1.SetMetaDataAnnotation(&ns.ObjectMeta, AnnotationInitialized, "true")
	return r.patch(ctx, ns, before)
}
