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

// inventory returns the inventory of a release; nil where there is none.
func (r *Reconciler) inventory(ctx context.Context, rel *v2.ApplicationRelease) (*release.Inventory, error) {
	m := &corev1.ConfigMap{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: release.InventoryNamespace, Name: release.InventoryName(rel.UID)}, m)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // nil is none
	}
	if err != nil {
		return nil, fmt.Errorf("read the inventory of the release %s: %w", rel.Name, err)
	}
	return release.InventoryOf(m)
}

// note writes the inventory of a release.
func (r *Reconciler) note(ctx context.Context, rel *v2.ApplicationRelease, i *release.Inventory) error {
	m, err := i.ConfigMap(rel)
	if err != nil {
		return err
	}
	err = r.Client.Create(ctx, m)
	if apierrors.IsAlreadyExists(err) {
		err = r.Client.Update(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("write the inventory of the release %s: %w", rel.Name, err)
	}
	return nil
}
