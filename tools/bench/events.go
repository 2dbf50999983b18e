package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

const (
	// changes is how many changes are followed.
	changes = 200
	// changeTimeout bounds the wait until one shows.
	changeTimeout = 10 * time.Second
	// lookEvery is the pause between two looks, and so the precision.
	lookEvery = 250 * time.Microsecond
)

// events measures how long after a change in the cluster a GET at the product shows it. The change exists from the moment
// that kube-apiserver has answered the write or has sent the event to an ordinary watcher, whichever is first seen here.
func events(ctx context.Context, c client, kube kubernetes.Interface) ([]figure, error) {
	pods := kube.CoreV1().Pods(podNamespace(11))
	name := podName(11)
	w, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return nil, fmt.Errorf("watch pod %s: %w", name, err)
	}
	defer w.Stop()
	path := fmt.Sprintf("/kapis/resources.kubesphere.io/v1alpha3/namespaces/%s/pods/%s", podNamespace(11), name)
	var took []time.Duration
	for i := range changes {
		value := strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.Itoa(i)
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, touchLabel, value)
		watched := make(chan time.Time, 1)
		go func() { watched <- firstEvent(w, value) }()
		if _, err := pods.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return nil, fmt.Errorf("change pod %s: %w", name, err)
		}
		exists := time.Now()
		seen, err := c.whenShown(ctx, path, []byte(value))
		if err != nil {
			return nil, err
		}
		select {
		case at := <-watched:
			if at.IsZero() {
				return nil, errors.New("the watch of kube-apiserver ended")
			}
			if at.Before(exists) {
				exists = at
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		took = append(took, max(seen.Sub(exists), 0))
	}
	slices.Sort(took)
	at := func(q float64) float64 { return micros(quantile(took, q)) / 1000 }
	return []figure{
		{name: "event-to-readable-p50", value: at(0.5), unit: "ms"},
		{name: "event-to-readable-p99", value: at(0.99), unit: "ms", goal: "<= 20 ms"},
	}, nil
}

// firstEvent returns when the watch tells of the value; the zero time if it ends before.
func firstEvent(w watch.Interface, value string) time.Time {
	for e := range w.ResultChan() {
		if p, ok := e.Object.(*corev1.Pod); ok && p.Labels[touchLabel] == value {
			return time.Now()
		}
	}
	return time.Time{}
}

// whenShown looks until an answer has the value, and returns when that was.
func (c client) whenShown(ctx context.Context, path string, value []byte) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	for {
		resp, err := c.get(ctx, path)
		switch {
		case ctx.Err() != nil:
			return time.Time{}, fmt.Errorf("a change did not show at GET %s within %v", path, changeTimeout)
		case err != nil:
			return time.Time{}, err
		case bytes.Contains(resp.Body, value):
			return time.Now(), nil
		}
		time.Sleep(lookEvery)
	}
}
