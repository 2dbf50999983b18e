package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kapis.dev/ks-apiserver/tools/stack"
)

// settleStep is for how long ks-controller-manager must write nothing, and use little CPU, to be settled.
const settleStep = 3 * time.Second

// managerPID is the process of ks-controller-manager.
func (b *bench) managerPID() (int, error) {
	pid, ok := b.stack.Process("ks-controller-manager")
	if !ok {
		return 0, errors.New("ks-controller-manager is not among the processes that run has started")
	}
	return pid, nil
}

// settle waits until ks-controller-manager has nothing to do, and returns how long it was busy.
func (b *bench) settle(ctx context.Context) (time.Duration, error) {
	pid, err := b.managerPID()
	if err != nil {
		return 0, err
	}
	took, err := b.settled(ctx, pid, nativeGroups)
	if err == nil {
		b.say("everything was mirrored after %v", took.Round(time.Millisecond))
	}
	return took, err
}

// settled waits until a process writes nothing in API groups and uses little CPU, and returns how long it did not.
func (b *bench) settled(ctx context.Context, pid int, groups []string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	start := time.Now()
	for {
		began := time.Now()
		writes, share, err := b.watch(ctx, pid, settleStep, groups)
		if err != nil {
			return 0, fmt.Errorf("wait until ks-controller-manager has nothing to do: %w", err)
		}
		if writes == 0 && share < quietShare {
			return began.Sub(start), nil
		}
	}
}

// watch observes a process for so long: how many writes in API groups kube-apiserver received from any client, and the share of a core.
func (b *bench) watch(ctx context.Context, pid int, length time.Duration, groups []string) (writes, share float64, err error) {
	before, err := b.writes(ctx, groups)
	if err != nil {
		return 0, 0, err
	}
	cpu, err := stack.CPU(pid)
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	select {
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	case <-time.After(length):
	}
	used, err := stack.CPU(pid)
	if err != nil {
		return 0, 0, err
	}
	share = float64(used-cpu) / float64(time.Since(start))
	after, err := b.writes(ctx, groups)
	return after - before, share, err
}

// writes returns how many writes in API groups kube-apiserver has received.
func (b *bench) writes(ctx context.Context, groups []string) (float64, error) {
	metrics, err := metricsOf(ctx, b.kube)
	return writesOf(metrics, "group", groups...), err
}

// managed observes ks-controller-manager while it should do nothing, and a second one that starts and finds everything done.
func (b *bench) managed(ctx context.Context) ([]figure, error) {
	if _, err := b.settle(ctx); err != nil {
		return nil, err
	}
	pid, err := b.managerPID()
	if err != nil {
		return nil, err
	}
	rss, err := stack.RSS(pid)
	if err != nil {
		return nil, err
	}
	writes, share, err := b.watch(ctx, pid, idleWindow, nativeGroups)
	if err != nil {
		return nil, err
	}
	figures := []figure{
		{name: "manager-rss", value: float64(rss) / mebibyte, unit: "MiB"},
		{name: "manager-idle-share-of-a-core", value: 100 * share, unit: "%", goal: "<= 2 %"},
		{name: "manager-idle-writes", value: writes, unit: "writes", goal: "<= 0"},
	}
	more, err := b.manager(ctx)
	return append(figures, more...), err
}

// manager starts a second ks-controller-manager, and measures what it has used and written by the time that it has nothing to do.
func (b *bench) manager(ctx context.Context) (_ []figure, err error) {
	before, err := b.writes(ctx, nativeGroups)
	if err != nil {
		return nil, err
	}
	m, err := b.stack.Manager()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Stop()) }()
	took, err := b.settled(ctx, m.PID, nativeGroups)
	if err != nil {
		return nil, err
	}
	used, err := stack.CPU(m.PID)
	if err != nil {
		return nil, err
	}
	rss, err := stack.RSS(m.PID)
	if err != nil {
		return nil, err
	}
	after, err := b.writes(ctx, nativeGroups)
	if err != nil {
		return nil, err
	}
	return []figure{
		{name: "manager-start", value: took.Seconds(), unit: "s"},
		{name: "manager-start-cpu", value: used.Seconds(), unit: "s"},
		{name: "manager-start-rss", value: float64(rss) / mebibyte, unit: "MiB"},
		{name: "manager-start-writes", value: after - before, unit: "writes", goal: "<= 0"},
	}, nil
}

// started measures a start until everything that a member sees is listed.
func (b *bench) started(ctx context.Context, as client, c crowd) ([]figure, error) {
	return b.startCost(ctx, "access-start", as, func(ctx context.Context, there client) error { return there.sees(ctx, c.namespaces()) })
}
