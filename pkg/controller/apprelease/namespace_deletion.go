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

// isIn reports whether a namespace is the one of an inventory, and not a later one of its name.
func isIn(i *release.Inventory, namespace *corev1.Namespace) bool {
	return i.Namespace == namespace.Name && (i.NamespaceUID == "" || i.NamespaceUID == namespace.UID)
}

// isGone reports whether the namespace of an inventory is gone, and whether there is another one of its name. It reads without the cache,
// which may still have the former one.
func (r *Reconciler) isGone(ctx context.Context, i *release.Inventory) (gone, another bool, err error) {
	n := &corev1.Namespace{}
	err = r.Live.Get(ctx, client.ObjectKey{Name: i.Namespace}, n)
	if apierrors.IsNotFound(err) {
		return true, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("read the namespace %s: %w", i.Namespace, err)
	}
	another = !isIn(i, n)
	return another, another, nil
}

// endWithNamespace deletes a release that was installed in a namespace which is gone, and reports whether it does: nothing runs any more,
// and somebody else may make a namespace of that name, or has made it. One that waits for its namespace stays, and so does what a hub has
// brought.
func (r *Reconciler) endWithNamespace(ctx context.Context, rel *v2.ApplicationRelease) (ends bool, err error) {
	namespace := rel.Labels[v2.LabelNamespace]
	if namespace == "" || r.Sent != nil || release.IsSent(rel) {
		return false, nil
	}
	// A namespace that is older than the release is taken for the one that it was installed in, which spares reading the inventory: by
	// clocks, so that an operation and a removal compare UIDs.
	n, err := present(ctx, r, namespace, func(*corev1.Namespace) bool { return true })
	if err == nil && n.CreationTimestamp.Before(&rel.CreationTimestamp) {
		return false, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read the namespace %s: %w", namespace, err)
	}
	gone := err != nil && release.IsAdopted(&rel.Status) // which has no inventory yet
	installed, err := r.inventory(ctx, rel)
	if err == nil && installed != nil {
		namespace = installed.Namespace
		gone, _, err = r.isGone(ctx, installed)
	}
	if err != nil || !gone {
		return false, err
	}
	uid := rel.UID
	if err := r.Client.Delete(ctx, rel, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("delete the ApplicationRelease %s with its namespace %s: %w", rel.Name, namespace, err)
	}
	r.event(rel, corev1.EventTypeNormal, "NamespaceGone", fmt.Sprintf("it ends with the namespace %s, which was deleted", namespace))
	return true, nil
}
