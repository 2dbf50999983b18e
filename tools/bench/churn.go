package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"kapis.dev/ks-apiserver/tools/stack"
)

const (
	// churnRate is how many changes a second are aimed at.
	churnRate = 1000
	// churners is how many changes are under way at the same time.
	churners = 24
	// churnSettles is how long changes are made before anything is measured beside them.
	churnSettles = time.Second
	// intakeTime is how long changes are made to see what they cost.
	intakeTime = 5 * time.Second
)

// churn changes pods at random, churnRate times a second or as often as the cluster takes it.
type churn struct {
	made   atomic.Int64
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	err    error
}

// startChurn begins to change the first pods of the benchmark.
func startChurn(ctx context.Context, kube kubernetes.Interface, pods int) *churn {
	ctx, cancel := context.WithCancel(ctx)
	c := &churn{cancel: cancel}
	permits := make(chan struct{}, churnRate/100)
	c.wg.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for range churnRate / 100 {
				select {
				case permits <- struct{}{}:
				default: // the cluster is slower than that
				}
			}
		}
	})
	for range churners {
		c.wg.Go(func() { c.change(ctx, kube, pods, permits) })
	}
	return c
}

func (c *churn) change(ctx context.Context, kube kubernetes.Interface, pods int, permits <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-permits:
		}
		i := rand.IntN(pods)                                                                      //nolint:gosec // which pod changes is no secret
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"%x"}}}`, touchLabel, rand.Uint64()) //nolint:gosec // nor is this
		// What has begun is finished, also after the end of ctx: a request that is cut off is logged as an error.
		_, err := kube.CoreV1().Pods(podNamespace(i)).Patch(context.WithoutCancel(ctx), podName(i), types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			c.mu.Lock()
			c.err = errors.Join(c.err, fmt.Errorf("change pod %s: %w", podName(i), err))
			c.mu.Unlock()
			c.cancel()
			return
		}
		c.made.Add(1)
	}
}

// stop ends the changes, and says what went wrong with them.
func (c *churn) stop() error {
	c.cancel()
	c.wg.Wait()
	return c.err
}

// settled starts changes and returns once they are made at their rate.
func settled(ctx context.Context, kube kubernetes.Interface, pods int) (*churn, error) {
	c := startChurn(ctx, kube, pods)
	select {
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), c.stop())
	case <-time.After(churnSettles):
		return c, nil
	}
}

// underChurn compares a page while pods change with the same page while they do not: in processor time, that of following
// the changes included, since the cluster that makes them takes its own share of the machine.
func (l lists) underChurn(kube kubernetes.Interface) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		t, err := l.at(page10, 200)
		if err != nil {
			return err
		}
		changing := side{target: t, count: l.counts.page, during: func(ctx context.Context) (func() error, error) {
			c, err := settled(ctx, kube, l.pods)
			if err != nil {
				return nil, err
			}
			return c.stop, nil
		}}
		return l.play(ctx, contest{
			name: name, conns: connections, product: changing, yardstick: &side{target: t, count: l.counts.page},
			beside: "without-churn", measures: []measure{pagesPerCPU("ratio >= 0.90"), throughputOfPages()},
		})
	}
}

// pagesPerCPU is how many requests a second of processor time answers.
func pagesPerCPU(goal string) measure {
	return measure{suffix: "-per-cpu-second", unit: "pages", goal: goal, of: func(s sample) float64 {
		return float64(s.requests) / s.cpu.Seconds()
	}}
}

// throughputOfPages is how many requests are answered in a second.
func throughputOfPages() measure {
	return measure{suffix: "-per-second", unit: "pages", of: func(s sample) float64 {
		return float64(s.requests) / s.wall.Seconds()
	}}
}

// intake measures what following changes costs while nobody asks for anything.
func (b *bench) intake(ctx context.Context) ([]figure, error) {
	idle, err := share(ctx, b.client.pid)
	if err != nil {
		return nil, err
	}
	c, err := settled(ctx, b.kube, b.size)
	if err != nil {
		return nil, err
	}
	cpu, err := stack.CPU(b.client.pid)
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	made, start := c.made.Load(), time.Now()
	select {
	case <-ctx.Done():
	case <-time.After(intakeTime):
	}
	events, took := float64(c.made.Load()-made), time.Since(start).Seconds()
	after, err := stack.CPU(b.client.pid)
	if err := errors.Join(err, c.stop(), ctx.Err()); err != nil {
		return nil, err
	}
	if events == 0 {
		return nil, errors.New("the cluster made no change")
	}
	used := (after - cpu).Seconds() - idle*took
	return []figure{
		{name: "intake-events-per-second", value: events / took, unit: "1/s"},
		{name: "intake-per-event-cpu", value: used / events * 1e6, unit: "us", goal: "<= 60 us"},
		{name: "intake-share-at-1000-events-per-second", value: used / events * churnRate * 100, unit: "%", goal: "<= 7 % of a core"},
	}, nil
}
