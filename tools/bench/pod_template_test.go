package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestPodIsOfTheSizeThatTheYardsticksAreGivenFor(t *testing.T) {
	b, err := json.Marshal(newPod(1234))
	if err != nil {
		t.Fatal(err)
	}
	// The API server adds a good 1 KB: defaults, tolerations, identity and a status.
	if len(b) < 4200 || len(b) > 4900 {
		t.Errorf("%d bytes", len(b))
	}
}

func TestPodsAreNobodysWork(t *testing.T) {
	p := newPod(7)
	if p.Spec.SchedulerName == "" || p.Spec.SchedulerName == corev1.DefaultSchedulerName || p.Spec.NodeName != "" {
		t.Errorf("scheduler %q, node %q", p.Spec.SchedulerName, p.Spec.NodeName)
	}
	if len(p.OwnerReferences) > 0 {
		t.Error("an owner that does not exist makes the garbage collector delete the pod")
	}
}

func TestPodNamesFitTheFilters(t *testing.T) {
	found := map[string]int{}
	names := map[string]bool{}
	for i := range minPods {
		p := newPod(i)
		names[p.Namespace+"/"+p.Name] = true
		if strings.Contains(p.Name, "-0001") {
			found["name"]++
		}
		if p.Labels[quarterLabel] == "0" {
			found["label"]++
		}
		if i%runningEvery == 0 {
			found["status"]++
		}
	}
	if len(names) != minPods {
		t.Errorf("%d names for %d pods", len(names), minPods)
	}
	for filter, want := range map[string]int{"name": 10, "label": minPods / 4, "status": 13} {
		if found[filter] != want {
			t.Errorf("the filter by %s finds %d of %d, want %d", filter, found[filter], minPods, want)
		}
	}
}

func TestRunningStatusIsThatOfEveryContainer(t *testing.T) {
	p := newPod(0)
	st := runningStatus(p, time.Unix(1e9, 0))
	if st.Phase != corev1.PodRunning || len(st.ContainerStatuses) != len(p.Spec.Containers) {
		t.Errorf("phase %s, %d container statuses", st.Phase, len(st.ContainerStatuses))
	}
}

// withAccounts is an empty cluster in which every namespace gets its service account at once.
func withAccounts(objects ...runtime.Object) *fake.Clientset {
	c := fake.NewClientset(objects...)
	c.PrependReactor("create", "namespaces", func(a clienttesting.Action) (bool, runtime.Object, error) {
		ns := a.(clienttesting.CreateAction).GetObject().(*corev1.Namespace)
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: ns.Name}}
		return false, nil, c.Tracker().Add(account)
	})
	return c
}

func testSeeder(c *fake.Clientset) (seeder, *bytes.Buffer) {
	var progress bytes.Buffer
	return seeder{client: c, progress: &progress, now: time.Now}, &progress
}

func TestSeed(t *testing.T) {
	c := withAccounts()
	s, progress := testSeeder(c)
	created, err := s.seed(t.Context(), 40)
	if err != nil || created != 40 {
		t.Fatalf("created %d, %v", created, err)
	}
	if !strings.Contains(progress.String(), "40 pods created") {
		t.Errorf("progress %q", progress)
	}
	running, all := 0, 0
	err = eachPod(t.Context(), c, "", func(p *corev1.Pod) {
		all++
		if p.Status.Phase == corev1.PodRunning {
			running++
		}
	})
	if err != nil || all != 40 || running != 3 {
		t.Errorf("%d pods, %d of them running, %v, want 40 and 3", all, running, err)
	}

	t.Run("WhatIsThereIsKept", func(t *testing.T) {
		if err := c.CoreV1().Pods(podNamespace(3)).Delete(t.Context(), podName(3), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if created, err := s.seed(t.Context(), 40); err != nil || created != 1 {
			t.Errorf("created %d, %v, want 1", created, err)
		}
		if created, err := s.seed(t.Context(), 40); err != nil || created != 0 {
			t.Errorf("created %d, %v, want none", created, err)
		}
	})
	t.Run("CleanLeavesNothing", func(t *testing.T) {
		if err := s.clean(t.Context()); err != nil {
			t.Fatal(err)
		}
		left, err := c.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		if err != nil || len(left.Items) != 0 {
			t.Errorf("%d namespaces are left, %v", len(left.Items), err)
		}
	})
}

func TestSeedLeavesForeignNamespacesAlone(t *testing.T) {
	c := withAccounts(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: podNamespace(4)}})
	s, _ := testSeeder(c)
	if _, err := s.seed(t.Context(), 20); err == nil || !strings.Contains(err.Error(), podNamespace(4)) {
		t.Errorf("error %v, want one that names %s", err, podNamespace(4))
	}
	if err := s.clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().Namespaces().Get(t.Context(), podNamespace(4), metav1.GetOptions{}); err != nil {
		t.Errorf("the foreign namespace is gone: %v", err)
	}
}

func TestSeedStopsAtTheFirstFailure(t *testing.T) {
	c := withAccounts()
	c.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no space left")
	})
	s, _ := testSeeder(c)
	if _, err := s.seed(t.Context(), 1000); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("error %v", err)
	}
	creates := 0
	for _, a := range c.Actions() {
		if a.Matches("create", "pods") {
			creates++
		}
	}
	if creates > 2*seeders {
		t.Errorf("%d attempts after a failure", creates)
	}
}
