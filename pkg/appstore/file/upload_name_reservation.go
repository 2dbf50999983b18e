package file

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Reservation is a name of a workspace that one upload has, and no other one at the same time, on any replica.
type Reservation struct {
	// Since is when the name was reserved.
	Since time.Time
	// For is the object that was made under the name; nil as long as there is none.
	For *metav1.OwnerReference

	id      string
	uid     types.UID
	version string
}

// Reservations keeps uploads of one name in one workspace apart. ConfigMaps is one. Errors are metav1.Status errors.
type Reservations interface {
	// Reserve reserves a name. Where it is reserved already, ok is false, and the reservation is the other one's.
	Reserve(ctx context.Context, workspace, name string) (r Reservation, ok bool, err error)
	// Keep has a reservation last as long as the object that was made. It fails for one that is not the present one any more.
	Keep(ctx context.Context, r *Reservation, made metav1.OwnerReference) error
	// Release gives a reservation up. One that is not the present one any more is left.
	Release(ctx context.Context, r *Reservation) error
}

var _ Reservations = (*ConfigMaps)(nil)

// reservationID returns the name of the ConfigMap of a reservation. Names of files have no dot after their first word.
func reservationID(workspace, name string) (string, error) {
	text, err := json.Marshal([]string{workspace, name})
	if err != nil {
		return "", fmt.Errorf("encode the name %q: %w", name, err)
	}
	sum := sha256.Sum256(text)
	return "upload." + hex.EncodeToString(sum[:]), nil
}

// Reserve implements Reservations: kube-apiserver creates one ConfigMap of a name.
func (c *ConfigMaps) Reserve(ctx context.Context, workspace, name string) (r Reservation, ok bool, err error) {
	id, err := reservationID(workspace, name)
	if err != nil {
		return Reservation{}, false, err
	}
	for range 3 {
		var m *corev1.ConfigMap
		m, err = c.client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: id, Namespace: Namespace}}, metav1.CreateOptions{})
		if err == nil {
			return reservationOf(m), true, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			break
		}
		if m, err = c.client.Get(ctx, id, metav1.GetOptions{}); err == nil {
			return reservationOf(m), false, nil
		}
		if !apierrors.IsNotFound(err) { // it was given up meanwhile
			break
		}
	}
	return Reservation{}, false, fmt.Errorf("reserve the name %.253q: %w", name, err)
}

func reservationOf(m *corev1.ConfigMap) Reservation {
	r := Reservation{Since: m.CreationTimestamp.Time, id: m.Name, uid: m.UID, version: m.ResourceVersion}
	if len(m.OwnerReferences) > 0 {
		r.For = &m.OwnerReferences[0]
	}
	return r
}

// Keep implements Reservations: garbage collection deletes the ConfigMap once the object is gone.
func (c *ConfigMaps) Keep(ctx context.Context, r *Reservation, made metav1.OwnerReference) error {
	m, err := c.client.Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: r.id, Namespace: Namespace, UID: r.uid,
		ResourceVersion: r.version, OwnerReferences: []metav1.OwnerReference{made}}}, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("keep the name of the %s %s reserved: %w", made.Kind, made.Name, err)
	}
	*r = reservationOf(m)
	return nil
}

// Release implements Reservations.
func (c *ConfigMaps) Release(ctx context.Context, r *Reservation) error {
	err := c.client.Delete(ctx, r.id, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(r.uid),
		ResourceVersion: ptr.To(r.version)}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("give up a reserved name: %w", err)
	}
	return nil
}
