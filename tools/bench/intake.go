package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
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
	bare, err := b.bareFollower(ctx, answers)
	if err != nil {
		return err
	}
	defer bare.stop()
	return l.underChurn(ctx, "churn-page-10-by-bare-handler", m, bare)
}

// bareFollower starts a bare handler that reads what a mix changes, and drops it. It has read all objects once.
func (b *bench) bareFollower(ctx context.Context, answers []answer) (*process, error) {
	p, err := startYardstick(ctx, answers, "following", b.clusterConfig())
	if err != nil {
		return nil, err
	}
	if err := b.quiet(ctx, p.pid); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
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

// intake measures what reading changes costs without requests, beside a program that reads the same kinds and drops what it reads: of a
// mixture of churnRate a second, and of pods of 5.6 KB alone, as many as the cluster accepts.
func (b *bench) intake(ctx context.Context, m *mix) ([]figure, error) {
	bare, err := b.bareFollower(ctx, []answer{})
	if err != nil {
		return nil, err
	}
	defer bare.stop()
	small, err := costOfChanges(ctx, m.writers(), b.client.pid, bare.pid)
	if err != nil {
		return nil, err
	}
	large, err := costOfChanges(ctx, podWriters(b.kube, b.size), b.client.pid, bare.pid)
	if err != nil {
		return nil, err
	}
	const beside = "bare-reader"
	perEvent := func(name, goal string, c changeCost) figure {
		return figure{name: name, value: c.perEvent(0), unit: "us", yardstick: beside, base: c.perEvent(1), goal: goal}
	}
	return []figure{
		{name: "intake-events-per-second", value: small.events, unit: "1/s"},
		perEvent("intake-per-event-cpu", "<= 60 us", small),
		{name: "intake-share-of-a-core", value: small.used[0] * 100, unit: "%", yardstick: beside, base: small.used[1] * 100, goal: "<= 7 %"},
		{name: "intake-large-pods-events-per-second", value: large.events, unit: "1/s"},
		perEvent("intake-large-pods-per-event-cpu", "", large),
	}, nil
}

// changeCost is what changes cost the processes that read them.
type changeCost struct {
	events float64   // in a second
	used   []float64 // shares of a core, beyond what each process uses without changes
}

// perEvent is the processor time of a process for one event, in microseconds.
func (c changeCost) perEvent(process int) float64 { return c.used[process] / c.events * 1e6 }

// costOfChanges lets the writers make changes for a while, and measures the processes that read them, at the same time.
func costOfChanges(ctx context.Context, writers []writer, pids ...int) (changeCost, error) {
	idle, err := shares(ctx, quietWindow, pids...)
	if err != nil {
		return changeCost{}, err
	}
	c, err := settled(ctx, writers)
	if err != nil {
		return changeCost{}, err
	}
	made, start := c.made.Load(), time.Now()
	used, err := shares(ctx, intakeTime, pids...)
	n, took := float64(c.made.Load()-made), time.Since(start).Seconds()
	if err := errors.Join(err, c.stop()); err != nil {
		return changeCost{}, err
	}
	if n == 0 {
		return changeCost{}, errors.New("the cluster made no change")
	}
	for i := range used {
		used[i] -= idle[i]
	}
	return changeCost{events: n / took, used: used}, nil
}
