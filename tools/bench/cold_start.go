package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kapis.dev/ks-apiserver/tools/stack"
)

// cold starts another ks-apiserver and measures what it has used by the time that it lists every pod.
func (b *bench) cold(ctx context.Context) (_ []figure, err error) {
	start := time.Now()
	r, err := b.stack.Replica(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	if err := b.awaitPods(ctx, client{Server: r.Server, token: b.client.token, pid: r.PID}); err != nil {
		return nil, err
	}
	took := time.Since(start)
	used, err := stack.CPU(r.PID)
	if err != nil {
		return nil, err
	}
	rss, err := stack.RSS(r.PID)
	if err != nil {
		return nil, err
	}
	bare, err := b.bareReader(ctx)
	if err != nil {
		return nil, err
	}
	return []figure{
		{name: "cold-start", value: took.Seconds(), unit: "s"},
		{
			name: "cold-start-cpu", value: used.Seconds(), unit: "s", yardstick: "bare-reader", base: bare.Seconds(), goal: coldGoal(b.size),
		},
		{name: "cold-start-rss", value: float64(rss) / mebibyte, unit: "MiB"},
	}, nil
}

// bareReader returns the processor time of a program that starts, reads the pods and drops them.
func (b *bench) bareReader(ctx context.Context) (time.Duration, error) {
	p, err := startYardstick(ctx, nil, "reading", b.clusterConfig())
	if err != nil {
		return 0, err
	}
	defer p.stop()
	return stack.CPU(p.pid)
}

// coldGoal is how much of a processor a start may use: it grows with the pods that are read.
func coldGoal(pods int) string {
	return fmt.Sprintf("<= %.1f s", 0.5*float64(max(pods, 10_000))/10_000)
}
