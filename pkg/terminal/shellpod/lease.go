package shellpod

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// RenewEvery is how often the server that serves a shell renews its Lease.
	RenewEvery = 20 * time.Second
	// LeaseDuration is how long a pod stays whose Lease is not renewed.
	LeaseDuration = 60 * time.Second
)

// Lease returns the Lease of a pod, which has the pod's name and goes with it.
func Lease(pod *corev1.Pod, now time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
		}}},
		Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(LeaseDuration / time.Second)), RenewTime: &metav1.MicroTime{Time: now}},
	}
}
