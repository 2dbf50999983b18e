package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
)

func TestChurnChangesPodsUntilItIsStopped(t *testing.T) {
	const pods = 20
	kube := fake.NewClientset()
	for i := range pods {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName(i), Namespace: podNamespace(i)}}
		if _, err := kube.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w, err := kube.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	c := startChurn(t.Context(), podWriters(kube, pods))
	for seen := 0; seen < 5; {
		if e := <-w.ResultChan(); e.Type == watch.Modified {
			if p, ok := e.Object.(*corev1.Pod); !ok || p.Labels[touchLabel] == "" {
				t.Errorf("changed %v, want a pod with another label", e.Object)
			}
			seen++
		}
	}
	if err := c.stop(); err != nil || c.made.Load() == 0 {
		t.Errorf("%d changes, %v", c.made.Load(), err)
	}
}

func TestChurnSaysWhatFails(t *testing.T) {
	c := startChurn(t.Context(), podWriters(fake.NewClientset(), 1))
	c.wg.Wait() // the first failure ends it
	if err := c.stop(); err == nil || !strings.Contains(err.Error(), podName(0)) {
		t.Errorf("error %v, want the pod that is not there", err)
	}
}

// With batches of any size, and even if the writers stood still for a moment, a second has churnRate changes.
func TestChurnKeepsItsRate(t *testing.T) {
	for name, w := range map[string]writer{
		"OneByOne": func(context.Context) (int, error) {
			time.Sleep(time.Millisecond)
			return 1, nil
		},
		"ManyAtOnce": func(context.Context) (int, error) {
			time.Sleep(20 * time.Millisecond)
			return mixBurst, nil
		},
		"WithAStall": func(context.Context) (int, error) {
			if time.Now().Second() == 3 {
				time.Sleep(500 * time.Millisecond)
			}
			return 1, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				writers := make([]writer, churners)
				for i := range writers {
					writers[i] = w
				}
				c := startChurn(t.Context(), writers)
				time.Sleep(10 * time.Second)
				if err := c.stop(); err != nil {
					t.Fatal(err)
				}
				// What is under way or paid for later is within a burst of each writer.
				if n, slack := c.made.Load(), int64(churners*mixBurst); n < 10*churnRate-slack || n > 10*churnRate+slack {
					t.Errorf("%d changes in 10 s, want about %d", n, 10*churnRate)
				}
			})
		})
	}
}

func TestAWriterThatFailsEndsTheChurn(t *testing.T) {
	broken := errors.New("no such luck")
	c := startChurn(t.Context(), []writer{
		func(context.Context) (int, error) { return 1, nil },
		func(context.Context) (int, error) { return 0, broken },
	})
	c.wg.Wait()
	if err := c.stop(); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}
