package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"kapis.dev/ks-apiserver/tools/stack"
)

const mebibyte = 1 << 20

// memory is what the pods have added to the product's resident memory, uncollected garbage included, next to their JSON alone.
func memory(before, after int64, pods, podBytes int) []figure {
	const perThousand = 1000.0 / mebibyte
	return []figure{
		{name: "rss", value: float64(after) / mebibyte, unit: "MiB"},
		{
			name: "rss-growth-per-1000-pods", value: float64(after-before) / float64(pods) * perThousand, unit: "MiB",
			yardstick: "raw-json", base: float64(podBytes) * perThousand,
		},
	}
}

// awaitPods waits until a server lists every pod of the benchmark.
func (b *bench) awaitPods(ctx context.Context, c client) error {
	var last error
	timeout := max(clusterTimeout, time.Duration(b.size)*time.Millisecond)
	err := wait.PollUntilContextTimeout(ctx, pollEvery, timeout, true, func(ctx context.Context) (bool, error) {
		n, err := c.total(ctx, url.Values{"labelSelector": {seedLabel + "=true"}})
		switch {
		case ctx.Err() != nil: // the last error says more than the end of the wait
		case err != nil:
			last = err
		case n < b.size:
			last = fmt.Errorf("it lists %d of %d", n, b.size)
		default:
			return true, nil
		}
		return false, nil //nolint:nilerr // the last error is told when the time is over
	})
	if err != nil {
		return fmt.Errorf("wait until ks-apiserver lists the pods: %w (%w)", err, last)
	}
	return nil
}

const (
	quietTimeout = time.Minute
	quietWindow  = time.Second
	// quietShare is the share of a core below which a server counts as idle.
	quietShare = 0.10
)

// quiet waits until the servers, and other processes, have processed the pods, and reports how much the servers still use: that much is in
// every figure.
func (b *bench) quiet(ctx context.Context, others ...int) error {
	pids, deadline := append([]int{b.client.pid}, others...), time.Now().Add(quietTimeout)
	if b.kubePID != 0 {
		pids = append(pids, b.kubePID)
	}
	for {
		used, err := shares(ctx, quietWindow, pids...)
		if err != nil {
			return err
		}
		if time.Now().Before(deadline) && slices.Max(used) >= quietShare {
			continue
		}
		kube := 0.0
		if b.kubePID != 0 {
			kube = used[len(used)-1]
		}
		fmt.Fprintf(b.out, "# in the background ks-apiserver uses %.1f %% of a core, kube-apiserver %.1f %%\n", 100*used[0], 100*kube)
		return nil
	}
}

// shares returns the shares of a core that processes use in the same time from now on.
func shares(ctx context.Context, window time.Duration, pids ...int) ([]float64, error) {
	before, start := make([]time.Duration, len(pids)), time.Now()
	used := make([]float64, len(pids))
	for i, pid := range pids {
		var err error
		if before[i], err = stack.CPU(pid); err != nil {
			return nil, err
		}
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(window):
	}
	for i, pid := range pids {
		after, err := stack.CPU(pid)
		if err != nil {
			return nil, err
		}
		used[i] = float64(after-before[i]) / float64(time.Since(start))
	}
	return used, nil
}
