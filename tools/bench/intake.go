package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"kapis.dev/ks-apiserver/tools/stack"
)

// intakeTime is how long changes are made to see what they cost.
const intakeTime = 10 * time.Second

// churned measures pages and intake while objects of several kinds change.
func (b *bench) churned(ctx context.Context, l lists) error {
	if err := b.ask(ctx); err != nil {
		return err
	}
	m, err := newMix(ctx, b.kube, churners)
	if err != nil {
		return err
	}
	b.say("measuring under churn: %s", mixed)
	if err := l.underChurn(ctx, "churn-page-10", m, nil); err != nil {
		b.report.miss("churn-page-10", err)
	}
	if err := b.bareUnderChurn(ctx, l, m); err != nil {
		b.report.miss("churn-page-10-by-bare-handler", err)
	}
	b.measured("intake", func() ([]figure, error) { return b.intake(ctx, m) })
	return errors.Join(m.clean(ctx, b.kube), b.quiet(ctx))
}

// ask makes the product cache the kinds that a mix changes, and waits until it has them.
func (b *bench) ask(ctx context.Context) error {
	for _, path := range mixLists {
		var last error
		err := wait.PollUntilContextTimeout(ctx, pollEvery, clusterTimeout, true, func(ctx context.Context) (bool, error) {
			_, last = b.client.get(ctx, path+"?limit=1")
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("wait until ks-apiserver lists what changes: %w (%w)", err, last)
		}
	}
	return nil
}

// underChurn compares a page while objects change with the same page while they do not: in processor time, including that of reading
// the changes, since the cluster that makes them takes its own share of the machine.
// bare is asked in place of the product; nil for the product.
func (l lists) underChurn(ctx context.Context, name string, m *mix, bare *process) error {
	t, err := l.at(pageByName, http.StatusOK)
	if err != nil {
		return err
	}
	goal := "ratio >= 0.90"
	if bare != nil {
		t, goal = t.on(bare), ""
	}
	changing := side{target: t, count: l.counts.page, during: func(ctx context.Context) (func() error, error) {
		c, err := settled(ctx, m.writers())
		if err != nil {
			return nil, err
		}
		return c.stop, nil
	}}
	return l.play(ctx, contest{
		name: name, conns: connections, product: changing, yardstick: &side{target: t, count: l.counts.page},
		beside: "without-churn", measures: []measure{pagesPerCPU(goal), throughputOfPages()},
	})
}

// pageByName is a page of the benchmark's pods: in the order by creation those of a mix would be first, which are small.
const pageByName = page10 + "&sortBy=name"

// bareUnderChurn measures the same with a bare handler that reads the same changes from kube-apiserver, and does nothing with them: no server
// over net/http that has to know them is above that.
func (b *bench) bareUnderChurn(ctx context.Context, l lists, m *mix) error {
	answers, err := b.client.answers(ctx, pageByName)
	if err != nil {
		return err
	}
	bare, err := startYardstick(ctx, answers, "following", b.clusterConfig())
	if err != nil {
		return err
	}
	defer bare.stop()
	return l.underChurn(ctx, "churn-page-10-by-bare-handler", m, bare)
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

// intake measures what reading changes costs without requests: of a mixture of churnRate a second, and of pods of 5.6 KB alone, as
// many as the cluster accepts.
func (b *bench) intake(ctx context.Context, m *mix) ([]figure, error) {
	mixed, took, err := b.follow(ctx, m.writers())
	if err != nil {
		return nil, err
	}
	pods, podsTook, err := b.follow(ctx, podWriters(b.kube, b.size))
	if err != nil {
		return nil, err
	}
	return []figure{
		{name: "intake-events-per-second", value: mixed, unit: "1/s"},
		{name: "intake-per-event-cpu", value: took / mixed * 1e6, unit: "us", goal: "<= 60 us"},
		{name: "intake-share-of-a-core", value: took * 100, unit: "%", goal: "<= 7 %"},
		{name: "intake-large-pods-events-per-second", value: pods, unit: "1/s"},
		{name: "intake-large-pods-per-event-cpu", value: podsTook / pods * 1e6, unit: "us"},
	}, nil
}

// follow lets the writers make changes for a while and returns how many there were in a second, and the share of a core that the
// product used for them.
func (b *bench) follow(ctx context.Context, writers []writer) (events, used float64, err error) {
	idle, err := share(ctx, b.client.pid)
	if err != nil {
		return 0, 0, err
	}
	c, err := settled(ctx, writers)
	if err != nil {
		return 0, 0, err
	}
	cpu, err := stack.CPU(b.client.pid)
	if err != nil {
		return 0, 0, errors.Join(err, c.stop())
	}
	made, start := c.made.Load(), time.Now()
	select {
	case <-ctx.Done():
	case <-time.After(intakeTime):
	}
	n, took := float64(c.made.Load()-made), time.Since(start).Seconds()
	after, err := stack.CPU(b.client.pid)
	if err := errors.Join(err, c.stop(), ctx.Err()); err != nil {
		return 0, 0, err
	}
	if n == 0 {
		return 0, 0, errors.New("the cluster made no change")
	}
	return n / took, (after-cpu).Seconds()/took - idle, nil
}
