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
	size       int // pods that are there now
}

// run starts the product, measures, and stops it. Results before an error are printed.
func (o options) run(ctx context.Context, out, progress io.Writer) (err error) {
	fmt.Fprintln(out, machine())
	b := &bench{options: o, out: out, progress: progress, report: &report{to: out}}
	if b.dir == "" {
		if b.dir, err = os.MkdirTemp("", "ks-bench-"); err != nil {
			return fmt.Errorf("make a state folder: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	}
	if b.soak > 0 {
		return b.soaks(ctx)
	}
	if b.capacity {
		return b.capacities(ctx)
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
	if err := b.report.table(b.markdown, machine(), b.rounds); err != nil {
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
	o := stack.Options{Bin: b.bin, Dir: b.dir, Kubeconfig: b.kubeconfig, Log: b.progress}
	if b.only == onlyFleet {
		o.Args = []string{"--fleet"}
	}
	b.stack, err = stack.Start(ctx, o)
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
	rss, err := b.empty(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(b.out, header)
	switch b.only {
	case onlyLogin:
		return b.measureLogins(ctx)
	case onlyAccess:
		return b.measureAccess(ctx)
	case onlyAudit:
		return b.measureAudit(ctx)
	case onlyExtensions:
		return b.measureExtensions(ctx)
	case onlyTerminal:
		return b.measureTerminal(ctx)
	case onlyFleet:
		return b.measureFleet(ctx)
	}
	for i, pods := range b.pods {
		if i > 0 {
			b.report.suffix = fmt.Sprintf("@%d", pods)
		}
		if rss, err = b.measureAt(ctx, pods, rss); err != nil {
			return err
		}
	}
	b.report.suffix = ""
	if err := b.measureAccess(ctx); err != nil {
		return err
	}
	b.measured("token-verification", verify)
	b.report.bySize(b.pods)
	return ctx.Err()
}

// measureLogins measures logins alone, with the smallest number of pods.
func (b *bench) measureLogins(ctx context.Context) error {
	if _, _, err := b.fill(ctx, b.pods[0]); err != nil {
		return err
	}
	b.measured("password-logins", func() ([]figure, error) { return b.logins(ctx) })
	b.measured("token-verification", verify)
	return ctx.Err()
}

// measureAudit measures the audit log alone, with the smallest number of pods.
func (b *bench) measureAudit(ctx context.Context) error {
	if _, _, err := b.fill(ctx, b.pods[0]); err != nil {
		return err
	}
	b.measured("audit", func() ([]figure, error) { return b.audits(ctx) })
	return ctx.Err()
}

// measureAccess measures what roles and bindings cost.
func (b *bench) measureAccess(ctx context.Context) error {
	b.measured("authorize", authorize)
	if b.kubeconfig != "" {
		b.report.skip("access", "it would leave its users and workspaces in somebody's cluster")
		return ctx.Err()
	}
	b.measured("access", func() ([]figure, error) { return b.access(ctx) })
	return ctx.Err()
}

// fill creates pods up to a number, and returns how many of them are new and the memory that the product then has.
func (b *bench) fill(ctx context.Context, pods int) (created int, rss int64, err error) {
	b.size = pods
	b.say("creating what is missing of %d pods", pods)
	created, err = seeder{client: b.kube, progress: b.progress, now: time.Now}.seed(ctx, pods)
	if err != nil {
		return 0, 0, err
	}
	if err := b.awaitPods(ctx, b.client); err != nil {
		return 0, 0, err
	}
	if err := b.quiet(ctx); err != nil {
		return 0, 0, err
	}
	rss, err = stack.RSS(b.client.pid)
	return created, rss, err
}

// measureAt measures everything with so many pods. before is the memory that the product had with fewer; the present one is returned.
func (b *bench) measureAt(ctx context.Context, pods int, before int64) (int64, error) {
	had := b.size
	created, rss, err := b.fill(ctx, pods)
	if err != nil {
		return 0, err
	}
	l, err := b.yardsticks(ctx)
	if err != nil {
		return 0, err
	}
	defer l.bare.stop()
	defer l.sort.stop()
	if created == pods-had {
		b.report.add(memory(before, rss, created, l.podBytes)...)
	} else {
		b.report.skip("rss", "the pods were there before, so that nothing grew")
	}
	b.say("measuring %d rounds of lists of %d pods", b.rounds, l.pods)
	if err := l.run(ctx); err != nil {
		return 0, err
	}
	if err := b.churned(ctx, l); err != nil {
		return 0, err
	}
	if had == 0 {
		b.measured("proxy-get", func() ([]figure, error) {
			return passed(ctx, b.client, b.restConfig, b.kubePID, b.rounds, l.counts.passed)
		})
		b.measured("api-rate", func() ([]figure, error) {
			return rates(ctx, b.client.header(), b.stack.TLSURL, b.restConfig, b.rounds, l.counts.passed)
		})
		b.measured("password-logins", func() ([]figure, error) { return b.logins(ctx) })
	}
	b.measured("event-to-readable", func() ([]figure, error) { return events(ctx, b.client, b.kube) })
	b.measured("event-to-watcher", func() ([]figure, error) { return watched(ctx, b.client, b.kube) })
	b.measured("cold-start", func() ([]figure, error) { return b.cold(ctx) })
	return rss, ctx.Err()
}

// measured reports figures, or why there are none.
func (b *bench) measured(name string, f func() ([]figure, error)) {
	b.say("measuring %s", name)
	figures, err := f()
	b.report.add(figures...)
	if err != nil {
		b.report.miss(name, err)
	}
}

// empty makes the product cache pods, which it does from the first request on, and returns the memory that it then has.
func (b *bench) empty(ctx context.Context) (int64, error) {
	if _, err := b.client.total(ctx, url.Values{}); err != nil {
		return 0, err
	}
	return stack.RSS(b.client.pid)
}

// listRounds is how many rounds of lists count as one: a round takes half a second, in which a virtual machine's speed changes by more than
// most of these ratios differ from their goals.
const listRounds = 3

// yardsticks starts the processes that the lists are compared with.
func (b *bench) yardsticks(ctx context.Context) (lists, error) {
	l := lists{client: b.client, counts: usual(), rounds: listRounds * b.rounds, report: b.report}
	var err error
	if l.pods, err = b.client.total(ctx, url.Values{}); err != nil {
		return lists{}, err
	}
	answers, err := b.client.answers(ctx, page10, page100, onePod())
	if err != nil {
		return lists{}, err
	}
	ten, hundred := len(answers[0].Body), len(answers[1].Body)
	l.podBytes = hundred / 100
	fmt.Fprintf(b.out, "# %d pods, %d bytes of JSON each; a page of ten is %d bytes, one of a hundred %d\n", l.pods, l.podBytes, ten, hundred)
	// A server that does not answer all pods at once has the other figures all the same.
	if all, err := b.client.answers(ctx, allPods); err == nil {
		answers, l.whole = append(answers, all...), true
	}
	floors, err := b.client.floors(ctx)
	if err != nil {
		return lists{}, err
	}
	answers = append(answers, floors...)
	if l.bare, err = startYardstick(ctx, answers, "bare"); err != nil {
		return lists{}, err
	}
	if l.sort, err = startYardstick(ctx, nil, "sort", b.clusterConfig()); err != nil {
		l.bare.stop()
		return lists{}, err
	}
	return l, nil
}

// clusterConfig is the kubeconfig file of the cluster.
func (b *bench) clusterConfig() string {
	if b.kubeconfig != "" {
		return b.kubeconfig
	}
	return filepath.Join(b.stack.Dir, "kubeconfig")
}
