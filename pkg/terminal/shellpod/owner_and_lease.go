// Package shellpod has what all pods of shells have: whose they are, and the Leases by which they end with the server that serves them.
package shellpod

import (
	"regexp"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// LabelUser has the UID of the user whose shell it is.
	LabelUser = "terminal.kapis.dev/user-uid"
	// AnnotationUser has the user's name, which is not always fit to be a label.
	AnnotationUser = "terminal.kapis.dev/user"
	// AnnotationFromHub is on the pod of a user whom the hub of the fleet names, and whom this cluster may have no User of.
	AnnotationFromHub = "terminal.kapis.dev/from-hub"
	// LabelApp is the label that says of which kind a pod is.
	LabelApp = "app.kubernetes.io/name"
)

var uid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// IsUID reports whether a UID is one of Kubernetes' (RFC 9562, section 4): it is a part of names here, and all are as long as each other,
// so that none is the beginning of another.
func IsUID(s string) bool { return uid.MatchString(s) }

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
