package shellpod_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kapis.dev/ks-apiserver/pkg/terminal/shellpod"
)

func TestAUIDIsAsLongAsAnyOther(t *testing.T) { // O8, O10
	const bob = "0b0b0b0b-1111-4222-8333-444444444444"
	for uid, want := range map[string]bool{
		bob: true, "": false, "bob": false, bob + "-": false, bob[:35]: false, "0B0B0B0B-1111-4222-8333-444444444444": false,
		bob + "\n": false, "0b0b0b0b-1111-4222-8333-44444444444*": false, "0b0b0b0b/1111/4222/8333/444444444444": false,
	} {
		if shellpod.IsUID(uid) != want {
			t.Errorf("%q is a UID: %v", uid, !want)
		}
	}
}

func TestALeaseGoesWithItsPod(t *testing.T) { // O11
	pod, now := &corev1.Pod{}, time.Unix(1_800_000_000, 0)
	pod.Name, pod.Namespace, pod.UID = "p", "n", "u"
	l := shellpod.Lease(pod, now)
	if o := l.OwnerReferences; l.Name != "p" || l.Namespace != "n" || len(o) != 1 || o[0].Kind != "Pod" || o[0].Name != "p" || o[0].UID != "u" ||
		!l.Spec.RenewTime.Time.Equal(now) || *l.Spec.LeaseDurationSeconds != 60 {
		t.Errorf("%+v", l)
	}
}
