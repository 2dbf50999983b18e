package main

import (
	"fmt"
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// mixWriters are fewer than those of a run: the fake cluster is slow.
const mixWriters = 3

// mixCluster has the pods that a mix changes.
func mixCluster(t *testing.T) *fake.Clientset {
	t.Helper()
	kube := fake.NewClientset()
	for i := range mixLarge * churners { // a writer's pods are churners apart
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName(i), Namespace: podNamespace(i)}}
		if _, err := kube.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return kube
}

// The description of a mix is true.
func TestAMixIsWhatItIsSaidToBe(t *testing.T) {
	kube := mixCluster(t)
	m, err := newMix(t.Context(), kube, mixWriters)
	if err != nil {
		t.Fatal(err)
	}
	kube.ClearActions()
	const turns = (mixBurst + 1) * len(mixTurns) // as many bursts, with their ends, as a round has turns of ConfigMaps that are made
	w, events := m.mixers[0], 0
	w.turn = 0
	for range turns {
		n, err := w.write(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		events += n
	}
	count := map[string]int{}
	for _, a := range kube.Actions() {
		verb := a.GetVerb() + " " + a.GetResource().Resource
		if u, ok := a.(clienttesting.UpdateAction); ok {
			o := u.GetObject().(metav1.Object)
			if strings.HasPrefix(o.GetName(), "mix-") && strings.HasSuffix(verb, "pods") {
				verb += " small"
			}
		}
		count[verb]++
	}
	share := func(verb string, each int) string {
		return fmt.Sprintf("%.0f %%", math.Round(100*float64(each*count[verb])/float64(events)))
	}
	got := fmt.Sprintf(
		"the status of pods of 5.6 KB (%s) and of small pods (%s), data of ConfigMaps (%s), Leases (%s), ConfigMaps created (%s) and deleted 50 at a time (%s)",
		share("update pods", 1),
		share("update pods small", 1),
		share("update configmaps", 1),
		share("update leases", 1),
		share("create configmaps", 1),
		share("delete-collection configmaps", mixBurst),
	)
	if got != mixed {
		t.Errorf("it is %s,\nand said to be %s", got, mixed)
	}
}

func TestWritersOfAMixShareNoObject(t *testing.T) {
	m, err := newMix(t.Context(), mixCluster(t), mixWriters)
	if err != nil {
		t.Fatal(err)
	}
	owner := map[string]int{}
	own := func(id int, o metav1.Object) {
		key := fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName())
		if other, taken := owner[key]; taken {
			t.Errorf("%s is of the writers %d and %d", key, other, id)
		}
		owner[key] = id
	}
	for _, w := range m.mixers {
		for _, p := range append(append([]*corev1.Pod{}, w.pods...), w.little...) {
			own(w.id, p)
		}
		for i := range w.maps {
			own(w.id, w.maps[i])
			own(w.id, w.leases[i])
		}
	}
	if want := mixWriters * (mixLarge + 3*mixOwn); len(owner) != want {
		t.Errorf("%d objects, want %d", len(owner), want)
	}
}

func TestAMixGoesOnWithWhatIsThereAlready(t *testing.T) {
	kube := mixCluster(t)
	for range 2 {
		if _, err := newMix(t.Context(), kube, mixWriters); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAMixWithoutPodsSaysWhatIsMissing(t *testing.T) {
	if _, err := newMix(t.Context(), fake.NewClientset(), 1); err == nil || !strings.Contains(err.Error(), "shop-checkout") {
		t.Errorf("error %v, want the pod that is not there", err)
	}
}
