package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/tools/stack"
)

// bench is a run.
type bench struct {
	options
	out      io.Writer
	progress io.Writer
	report   *report

	stack      *stack.Stack
	kube       *kubernetes.Clientset
	restConfig *rest.Config
	client     client
	kubePID    int // 0 in an existing cluster
}

// run starts the product, measures, and stops it. What was measured before an error is printed.
func (o options) run(ctx context.Context, out, progress io.Writer) (err error) {
	fmt.Fprintln(out, machine())
	b := &bench{options: o, out: out, progress: progress, report: &report{to: out}}
	if b.dir == "" {
		if b.dir, err = os.MkdirTemp("", "ks-bench-"); err != nil {
			return fmt.Errorf("make a state folder: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	}
	if err := b.start(ctx); err != nil {
		return err
	}
	defer func() {
		b.say("stopping")
		err = errors.Join(err, b.finish())
	}()
	if err := b.measure(ctx); err != nil {
		return err
	}
	if b.report.missed > 0 {
		return fmt.Errorf("%d of the figures could not be measured; the lines above say why", b.report.missed)
	}
	return nil
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "bench: "+format+"\n", args...)
}

// start starts the product and logs in.
func (b *bench) start(ctx context.Context) error {
	b.say("starting the product in %s", b.dir)
	var err error
	b.stack, err = stack.Start(ctx, stack.Options{Bin: b.bin, Dir: b.dir, Kubeconfig: b.kubeconfig, Log: b.progress})
	if err != nil {
		return err
	}
	if err := b.connect(ctx); err != nil {
		return errors.Join(err, b.stack.Stop())
	}
	return nil
}

func (b *bench) connect(ctx context.Context) error {
	token, err := b.stack.Login(ctx, "admin", b.stack.AdminPassword)
	if err != nil {
		return err
	}
	pid, ok := b.stack.Process("ks-apiserver")
	if !ok {
		return errors.New("ks-apiserver is not among the processes that run has started")
	}
	b.client = client{Server: b.stack.Server, token: token.Access, pid: pid}
	b.kubePID, _ = b.stack.Process("kube-apiserver")
	if b.restConfig, err = b.stack.RESTConfig(); err != nil {
		return err
	}
	seeding := rest.CopyConfig(b.restConfig)
	protobuf(seeding)
	b.kube, err = kubernetes.NewForConfig(seeding)
	return err
}

// finish cleans an existing cluster and stops the product. It is not ended by the end of the run's context.
func (b *bench) finish() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*clusterTimeout)
	defer cancel()
	var err error
	if b.kubeconfig != "" && !b.keep {
		b.say("deleting the pods")
		err = seeder{client: b.kube, progress: b.progress, now: time.Now}.clean(ctx)
	}
	return errors.Join(err, b.stack.Stop())
}

func (b *bench) measure(ctx context.Context) error {
	before, err := b.empty(ctx)
	if err != nil {
		return err
	}
	b.say("creating what is missing of %d pods", b.pods)
	created, err := seeder{client: b.kube, progress: b.progress, now: time.Now}.seed(ctx, b.pods)
	if err != nil {
		return err
	}
	if err := b.awaitPods(ctx, b.client); err != nil {
		return err
	}
	if err := b.quiet(ctx); err != nil {
		return err
	}
	after, err := stack.RSS(b.client.pid)
	if err != nil {
		return err
	}
	fmt.Fprintln(b.out, header)
	l, err := b.yardsticks(ctx)
	if err != nil {
		return err
	}
	defer l.bare.stop()
	defer l.sort.stop()
	if created == b.pods {
		b.report.add(memory(before, after, b.pods, l.podBytes)...)
	} else {
		b.report.skip("rss", "the pods were there before, so that nothing grew")
	}
	b.say("measuring %d rounds of lists of %d pods", b.rounds, l.pods)
	if err := l.run(ctx); err != nil {
		return err
	}
	b.measured("proxy-get", func() ([]figure, error) {
		return passed(ctx, b.client, b.restConfig, b.kubePID, b.rounds, l.counts.passed)
	})
	b.measured("event-to-readable", func() ([]figure, error) { return events(ctx, b.client, b.kube) })
	b.measured("cold-start", func() ([]figure, error) { return b.cold(ctx) })
	return ctx.Err()
}

// measured reports figures, or why there are none.
func (b *bench) measured(name string, f func() ([]figure, error)) {
	b.say("measuring %s", name)
	figures, err := f()
	if err != nil {
		b.report.miss(name, err)
		return
	}
	b.report.add(figures...)
}

// empty makes the product follow pods, which it does from the first question on, and returns the memory that it then has.
func (b *bench) empty(ctx context.Context) (int64, error) {
	if _, err := b.client.total(ctx, url.Values{}); err != nil {
		return 0, err
	}
	return stack.RSS(b.client.pid)
}

// yardsticks starts the processes that the lists are compared with.
func (b *bench) yardsticks(ctx context.Context) (lists, error) {
	l := lists{client: b.client, counts: usual(), rounds: b.rounds, report: b.report}
	var err error
	if l.pods, err = b.client.total(ctx, url.Values{}); err != nil {
		return lists{}, err
	}
	answers, err := b.client.answers(ctx, page10, page100)
	if err != nil {
		return lists{}, err
	}
	ten, hundred := len(answers[0].Body), len(answers[1].Body)
	l.podBytes = hundred / 100
	fmt.Fprintf(b.out, "# %d pods, %d bytes of JSON each; a page of ten is %d bytes, one of a hundred %d\n", l.pods, l.podBytes, ten, hundred)
	// A server that does not give all at once has the page figures all the same.
	if all, err := b.client.answers(ctx, allPods); err == nil {
		answers = append(answers, all...)
	}
	if l.bare, err = startYardstick(ctx, answers, "bare"); err != nil {
		return lists{}, err
	}
	kubeconfig := b.kubeconfig
	if kubeconfig == "" {
		kubeconfig = filepath.Join(b.stack.Dir, "kubeconfig")
	}
	if l.sort, err = startYardstick(ctx, nil, "sort", kubeconfig); err != nil {
		l.bare.stop()
		return lists{}, err
	}
	return l, nil
}
