package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
)

const (
	// seeders is how many pods are created at the same time.
	seeders = 16
	// listChunk is how many objects one request for a list asks for.
	listChunk = 500
	// clusterTimeout bounds a wait for something that the cluster does by itself.
	clusterTimeout = 2 * time.Minute
	// pollEvery is how often its state is read.
	pollEvery = 50 * time.Millisecond
)

// protobuf makes a client use the format that is cheapest for both ends.
func protobuf(c *rest.Config) { c.ContentType = "application/vnd.kubernetes.protobuf" }

// eachPod calls f with every pod that the selector matches.
func eachPod(ctx context.Context, client kubernetes.Interface, selector string, f func(*corev1.Pod)) error {
	o := metav1.ListOptions{LabelSelector: selector, Limit: listChunk}
	for {
		list, err := client.CoreV1().Pods("").List(ctx, o)
		if err != nil {
			return fmt.Errorf("list pods: %w", err)
		}
		for i := range list.Items {
			f(&list.Items[i])
		}
		if o.Continue = list.Continue; o.Continue == "" {
			return nil
		}
	}
}

// seeder fills a cluster with pods.
type seeder struct {
	client kubernetes.Interface
	// progress receives a line now and then; the last says how long it took.
	progress io.Writer
	now      func() time.Time
}

// seed creates the first n pods, and returns how many of them were created now. Existing ones stay.
func (s seeder) seed(ctx context.Context, n int) (int, error) {
	missing, err := s.missing(ctx, n)
	if err != nil || len(missing) == 0 {
		return 0, err
	}
	for i := range namespaces {
		if err := s.namespace(ctx, podNamespace(i)); err != nil {
			return 0, err
		}
	}
	start := s.now()
	var done atomic.Int64
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go tell(ctx, s.progress, &done, len(missing), "pods")
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(seeders)
	for _, i := range missing {
		group.Go(func() error {
			if err := groupCtx.Err(); err != nil {
				return err
			}
			err := s.create(groupCtx, i)
			done.Add(1)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return int(done.Load()), err
	}
	fmt.Fprintf(s.progress, "bench: %d pods created in %v\n", len(missing), s.now().Sub(start).Round(time.Millisecond))
	return len(missing), nil
}

// tell prints the progress of the seeding until ctx ends.
func tell(ctx context.Context, to io.Writer, done *atomic.Int64, all int, what string) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			fmt.Fprintf(to, "bench: %d of %d %s created\n", done.Load(), all, what)
		}
	}
}

// missing returns the numbers below n of pods that do not exist.
func (s seeder) missing(ctx context.Context, n int) ([]int, error) {
	there := map[string]bool{}
	if err := eachPod(ctx, s.client, seedLabel+"=true", func(p *corev1.Pod) { there[p.Namespace+"/"+p.Name] = true }); err != nil {
		return nil, err
	}
	var missing []int
	for i := range n {
		if !there[podNamespace(i)+"/"+podName(i)] {
			missing = append(missing, i)
		}
	}
	return missing, nil
}

// namespace creates a namespace, and waits for its service account, without which it accepts no pods. A namespace of that name that is
// not the benchmark's is left alone.
func (s seeder) namespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{seedLabel: "true"}}}
	_, err := s.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		ns, err = s.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err == nil && ns.Labels[seedLabel] != "true" {
			err = errors.New("it exists and was not made by the benchmark")
		}
	}
	if err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	err = wait.PollUntilContextTimeout(ctx, pollEvery, clusterTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := s.client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("wait for the service account default of namespace %s: %w", name, err)
	}
	return nil
}

func (s seeder) create(ctx context.Context, i int) error {
	pods := s.client.CoreV1().Pods(podNamespace(i))
	p, err := s.patiently(ctx, func() (*corev1.Pod, error) { return pods.Create(ctx, newPod(i), metav1.CreateOptions{}) })
	if apierrors.IsAlreadyExists(err) {
		return nil // an attempt that seemed to fail had succeeded
	}
	if err != nil {
		return fmt.Errorf("create pod %s: %w", podName(i), err)
	}
	if i%runningEvery != 0 {
		return nil
	}
	p.Status = runningStatus(p, s.now())
	_, err = s.patiently(ctx, func() (*corev1.Pod, error) { return pods.UpdateStatus(ctx, p, metav1.UpdateOptions{}) })
	if err != nil {
		return fmt.Errorf("set the status of pod %s: %w", podName(i), err)
	}
	return nil
}

// patiently writes a pod, with retries where the cluster was too busy: that is no failure of what is measured.
func (s seeder) patiently(ctx context.Context, write func() (*corev1.Pod, error)) (p *corev1.Pod, err error) {
	busy := func(err error) bool {
		return apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err)
	}
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Steps: 5}
	return p, retry.OnError(backoff, func(err error) bool { return ctx.Err() == nil && busy(err) }, func() error {
		p, err = write()
		return err
	})
}

// clean deletes the pods and the namespaces of the benchmark, and waits until the namespaces are gone.
func (s seeder) clean(ctx context.Context) error {
	list := metav1.ListOptions{LabelSelector: seedLabel + "=true"}
	found, err := s.client.CoreV1().Namespaces().List(ctx, list)
	if err != nil {
		return fmt.Errorf("list the namespaces of the benchmark: %w", err)
	}
	now := int64(0)
	for _, ns := range found.Items {
		err := s.client.CoreV1().Pods(ns.Name).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, list)
		if err != nil {
			return fmt.Errorf("delete the pods of namespace %s: %w", ns.Name, err)
		}
		err = s.client.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete namespace %s: %w", ns.Name, err)
		}
	}
	err = wait.PollUntilContextTimeout(ctx, pollEvery, clusterTimeout, true, func(ctx context.Context) (bool, error) {
		left, err := s.client.CoreV1().Namespaces().List(ctx, list)
		return err == nil && len(left.Items) == 0, err
	})
	if err != nil {
		return fmt.Errorf("wait for the namespaces of the benchmark to go: %w", err)
	}
	return nil
}
