package apprelease

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
)

// isGone reports whether there is no namespace of a name.
func (r *Reconciler) isGone(ctx context.Context, namespace string) (bool, error) {
	_, err := present(ctx, r, namespace, func(*corev1.Namespace) bool { return true })
	if err == nil || apierrors.IsNotFound(err) {
		return err != nil, nil
	}
	return false, fmt.Errorf("read the namespace %s: %w", namespace, err)
}

// endWithNamespace deletes a release that was installed in a namespace which is gone, and reports whether it does: nothing runs any more,
// and somebody else may make a namespace of that name. One that waits for its namespace stays, and so does what a hub has brought.
func (r *Reconciler) endWithNamespace(ctx context.Context, rel *v2.ApplicationRelease) (ends bool, err error) {
	namespace := rel.Labels[v2.LabelNamespace]
	if namespace == "" || r.Sent != nil || release.IsSent(rel) {
		return false, nil
	}
	if gone, err := r.isGone(ctx, namespace); err != nil || !gone {
		return false, err
	}
	installed, err := r.inventory(ctx, rel)
	if err != nil || installed == nil && !release.IsAdopted(&rel.Status) {
		return false, err
	}
	uid := rel.UID
	if err := r.Client.Delete(ctx, rel, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("delete the ApplicationRelease %s with its namespace %s: %w", rel.Name, namespace, err)
	}
	r.event(rel, corev1.EventTypeNormal, "NamespaceGone", fmt.Sprintf("it ends with the namespace %s, which was deleted", namespace))
	return true, nil
}
