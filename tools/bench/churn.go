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
)

const (
	// churnRate is the goal for changes a second.
	churnRate = 1000
	// churners is how many changes are made at the same time.
	churners = 24
	// churnSettles is how long changes are made before anything is measured.
	churnSettles = time.Second
	// churnTick is how often changes are allowed, those of the time since the last tick.
	churnTick = 10 * time.Millisecond
)

// writer makes one change, or several at once, and returns how many objects it has changed. It is called by one goroutine.
type writer func(context.Context) (int, error)

// churn lets writers make changes, churnRate a second or as many as the cluster accepts. What a busy machine delays is made up for
// within the next second.
type churn struct {
	made    atomic.Int64
	permits chan struct{}
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	mu      sync.Mutex
	err     error
}

func startChurn(ctx context.Context, writers []writer) *churn {
	ctx, cancel := context.WithCancel(ctx)
	c := &churn{cancel: cancel, permits: make(chan struct{}, churnRate)}
	c.wg.Go(func() { c.pace(ctx) })
	for _, w := range writers {
		c.wg.Go(func() { c.write(ctx, w) })
	}
	return c
}

// pace allows changes. It uses the clock, since a ticker drops ticks that are not received.
func (c *churn) pace(ctx context.Context) {
	tick := time.NewTicker(churnTick)
	defer tick.Stop()
	start, given := time.Now(), int64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for due := int64(time.Since(start) * churnRate / time.Second); given < due; given++ {
			select {
			case c.permits <- struct{}{}:
			default: // the cluster is slower than that
			}
		}
	}
}

func (c *churn) write(ctx context.Context, w writer) {
	for {
		if !c.take(ctx, 1) {
			return
		}
		// What has begun is finished, also after the end of ctx: a request that is cut off is logged as an error.
		n, err := w(context.WithoutCancel(ctx))
		if err != nil {
			c.mu.Lock()
			c.err = errors.Join(c.err, err)
			c.mu.Unlock()
			c.cancel()
			return
		}
		c.made.Add(int64(n))
		if !c.take(ctx, n-1) {
			return
		}
	}
}

// take waits until so many changes are allowed, and reports whether they are.
func (c *churn) take(ctx context.Context, n int) bool {
	for range n {
		select {
		case <-ctx.Done():
			return false
		case <-c.permits:
		}
	}
	return true
}

// stop ends the changes, and returns their error.
func (c *churn) stop() error {
	c.cancel()
	c.wg.Wait()
	return c.err
}

// settled starts changes and returns once they are made at their rate.
func settled(ctx context.Context, writers []writer) (*churn, error) {
	c := startChurn(ctx, writers)
	select {
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), c.stop())
	case <-time.After(churnSettles):
		return c, nil
	}
}

// podWriters patch pods of the benchmark at random. A cluster on this machine accepts some hundreds of such changes a second.
func podWriters(kube kubernetes.Interface, pods int) []writer {
	writers := make([]writer, churners)
	for w := range writers {
		writers[w] = func(ctx context.Context) (int, error) {
			i := rand.IntN(pods)                                                                      //nolint:gosec // which pod changes is no secret
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"%x"}}}`, touchLabel, rand.Uint64()) //nolint:gosec // nor is this
			if _, err := kube.CoreV1().Pods(podNamespace(i)).Patch(ctx, podName(i), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				return 0, fmt.Errorf("change pod %s: %w", podName(i), err)
			}
			return 1, nil
		}
	}
	return writers
}
