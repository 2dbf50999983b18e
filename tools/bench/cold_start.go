package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kapis.dev/ks-apiserver/tools/stack"
)

// startCost starts another ks-apiserver, stops it, and returns what it has used by the time that ready returns: the figures name, name-cpu and
// name-rss.
func (b *bench) startCost(ctx context.Context, name string, as client, ready func(context.Context, client) error) (_ []figure, err error) {
	begun := time.Now()
	r, err := b.stack.Replica(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	if err := ready(ctx, client{Server: r.Server, token: as.token, pid: r.PID}); err != nil {
		return nil, err
	}
	took := time.Since(begun)
	used, err := stack.CPU(r.PID)
	if err != nil {
		return nil, err
	}
	rss, err := stack.RSS(r.PID)
	if err != nil {
		return nil, err
	}
	return []figure{
		{name: name, value: took.Seconds(), unit: "s"},
		{name: name + "-cpu", value: used.Seconds(), unit: "s"},
		{name: name + "-rss", value: float64(rss) / mebibyte, unit: "MiB"},
	}, nil
}

// cold measures a start until every pod is listed.
func (b *bench) cold(ctx context.Context) ([]figure, error) {
	out, err := b.startCost(ctx, "cold-start", b.client, b.awaitPods)
	if err != nil {
		return nil, err
	}
	bare, err := b.bareReader(ctx)
	if err != nil {
		return nil, err
	}
	out[1].yardstick, out[1].base, out[1].goal = "bare-reader", bare.Seconds(), coldGoal(b.size)
	return out, nil
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
