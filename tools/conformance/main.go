// Command conformance runs conformance tests of Kubernetes first directly against kube-apiserver, then through ks-apiserver, and writes which
// of them pass directly and not through ks-apiserver, and how the times compare.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Which tests run. A simulated node runs no containers, so those that need one are left out there, by name.
const (
	focusAPI   = `\[sig-(api-machinery|auth)\].*\[Conformance\]`
	focusNode  = `|\[sig-node\].*(exec|logs|port-?forward|websockets).*\[Conformance\]`
	skipSlow   = `compacted away` // waits ten minutes for a compaction of etcd
	skipsImage = `|AdmissionWebhook|Aggregator|ConversionWebhook|Projected PodCertificate|ClusterTrustBundleProjection\] should` +
		`|ServiceAccountIssuerDiscovery|ServiceAccounts should mount`
)

type options struct {
	bin, dir, markdown string
	direct, through    string
	procs              int
	timeout            time.Duration
	note               string
	real, again        bool
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "folder of e2e.test, ginkgo, run and the product's programs")
	flag.StringVar(&o.dir, "dir", ".dev/conformance", "folder for the cluster, and for the logs and reports of both passes")
	flag.StringVar(&o.markdown, "markdown", "", "file to write the comparison to; none: print it only")
	flag.StringVar(&o.direct, "kubeconfig", "", "kubeconfig of a running kube-apiserver, as its administrator; none: start a cluster, and stop it at the end")
	flag.StringVar(&o.through, "ks-kubeconfig", "", "kubeconfig of its ks-apiserver, as the platform's administrator")
	flag.IntVar(&o.procs, "procs", 6, "how many tests run at a time; most of them wait")
	flag.DurationVar(&o.timeout, "timeout", 30*time.Minute, "how long each pass may take")
	flag.BoolVar(&o.real, "real", false, "the cluster has a real node: tests that run containers are run too")
	flag.StringVar(&o.note, "note", "", "a sentence for the comparison, such as what else the machine did")
	flag.BoolVar(&o.again, "report-only", false, "run nothing: write the comparison of the last two passes again")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if flag.NArg() > 0 {
		return fmt.Errorf("unknown arguments %s: conformance takes flags only", strings.Join(flag.Args(), " "))
	}
	if (o.direct == "") != (o.through == "") {
		return errors.New("name both --kubeconfig and --ks-kubeconfig, or neither to start a cluster")
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the reports: %w", err)
	}
	if o.direct == "" && !o.again {
		stop, err := startCluster(ctx, o)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	if o.direct == "" {
		o.direct, o.through = filepath.Join(o.dir, "kubeconfig"), filepath.Join(o.dir, "ks.kubeconfig")
	}
	return compareRuns(ctx, o)
}

func compareRuns(ctx context.Context, o options) error {
	passes := []*pass{{name: "direct", kubeconfig: o.direct}, {name: "through", kubeconfig: o.through}}
	for _, p := range passes {
		if !o.again {
			if err := p.run(ctx, o); err != nil {
				return err
			}
		}
		if err := p.read(o.dir); err != nil {
			return err
		}
		fmt.Printf("%s: %d of %d passed in %s\n", p.name, p.count(passed), len(p.results), p.took.Round(time.Second))
	}
	text, worse := compare(passes[0], passes[1], o)
	fmt.Print(text)
	if o.markdown != "" {
		if err := os.WriteFile(o.markdown, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write the comparison: %w", err)
		}
	}
	if worse > 0 {
		return fmt.Errorf("%d tests pass directly and not through ks-apiserver: see %s", worse, filepath.Join(o.dir, "through.log"))
	}
	return nil
}

// run runs the tests once. That some fail is no error; that none ran is.
func (p *pass) run(ctx context.Context, o options) error {
	if _, err := os.Stat(p.kubeconfig); err != nil {
		return fmt.Errorf("the cluster is not running: %w; start it with `make run`, or name no kubeconfig", err)
	}
	report := filepath.Join(o.dir, p.name+".json")
	if err := os.Remove(report); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the last report: %w", err)
	}
	log, err := os.Create(filepath.Join(o.dir, p.name+".log"))
	if err != nil {
		return fmt.Errorf("make a log: %w", err)
	}
	defer log.Close()
	focus, skip := selection(o.real)
	cmd := exec.CommandContext(ctx, filepath.Join(o.bin, "ginkgo"), "--procs="+strconv.Itoa(o.procs), "--timeout="+o.timeout.String(), "--no-color",
		"--focus="+focus, "--skip="+skip, "--output-dir="+o.dir, "--json-report="+p.name+".json", filepath.Join(o.bin, "e2e.test"), "--",
		"--provider=skeleton", "--kubeconfig="+p.kubeconfig, "--dump-logs-on-failure=false", "--allowed-not-ready-nodes=-1")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute // it ends its processes, and cleans up
	cmd.Stdout, cmd.Stderr = log, log
	fmt.Printf("%s: running, at most %s; its log is %s\n", p.name, o.timeout, log.Name())
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run the tests: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	beat := time.NewTicker(30 * time.Second)
	defer beat.Stop()
	for begun := time.Now(); ; {
		select {
		case err = <-ended:
			var exit *exec.ExitError
			if ctx.Err() != nil {
				return fmt.Errorf("stopped: %w", ctx.Err())
			}
			if err != nil && !errors.As(err, &exit) {
				return fmt.Errorf("run the tests: %w", err)
			}
			return nil
		case <-beat.C:
			fmt.Printf("%s: running for %s\n", p.name, time.Since(begun).Round(time.Second))
		}
	}
}

func selection(real bool) (focus, skip string) {
	if real {
		return focusAPI + focusNode, skipSlow
	}
	return focusAPI, skipSlow + skipsImage
}
