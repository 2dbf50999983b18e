// Command bench measures the real ks-apiserver over loopback next to its yardsticks, in the same run and in turns, and
// prints one line for each figure: name value unit yardstick value ratio. Each is the median of several rounds. Progress
// goes to stderr. It fails if something could not be measured; a goal that is missed is no failure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) > 1 && args[0] == yardstickCommand {
		return serveYardstick(args[1], args[2:], os.Stdin, os.Stdout)
	}
	o, err := parse(args, os.Getenv)
	if err != nil {
		return err
	}
	return o.run(ctx, os.Stdout, os.Stderr)
}

// options are the flags.
type options struct {
	bin        string // folder of the programs
	dir        string // folder of the instance's state; "" is one that is removed at the end
	kubeconfig string // an existing cluster; "" starts a control plane
	pods       []int  // the sizes, each larger than the one before
	rounds     int
	keep       bool          // leave the pods in an existing cluster
	markdown   string        // file for a table of the figures; "" for none
	only       string        // the part to measure; "" for all
	fleetSize  int           // members that a hub is measured with
	people     int           // users that rights are measured with, with workspaces, namespaces and bindings
	soak       time.Duration // instead of measuring, load the product for so long
	race       bool          // then load one that is built with the race detector
	capacity   bool          // instead of all that, measure what each number of pods needs
	real       int           // then create so many pods at most; a larger number is a recorded watch
}

const (
	minPods = 200 // so that each filter has a page of ten
	maxPods = 1_000_000

	// onlyLogin is the part that is about logins.
	onlyLogin = "login"
	// onlyAccess is the part that is about roles and bindings.
	onlyAccess = "access"
	// onlyAudit is the part that is about the audit log.
	onlyAudit = "audit"
	// onlyTerminal is the part that is about shells.
	onlyTerminal = "terminal"
	// onlyExtensions is the part that is about backends and bundles of extensions.
	onlyExtensions = "extensions"
	// onlyFleet is the part that is about the hub of a fleet.
	onlyFleet = "fleet"

	minPeople, maxPeople = 100, 100_000
	// The fleet is measured with groups of three members, and some that end.
	minMembers, maxMembers = 12, 500
)

func parse(args []string, env func(string) string) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.bin, "bin", "bin", "`folder` of run, ks-apiserver, ks-controller-manager, dev and kubectl")
	f.StringVar(&o.dir, "dir", "", "`folder` of the instance's state, kept with its pods (default: a temporary one)")
	f.StringVar(&o.kubeconfig, "kubeconfig", "",
		"`file` of an existing cluster, that is filled with pods (default: a control plane is started)")
	f.BoolVar(&o.keep, "keep", false, "leave the pods in an existing cluster for the next run")
	pods := f.String("pods", fallback(env("BENCH_PODS"), "10000,100000"),
		"`numbers` of pods, growing, joined by commas; BENCH_PODS sets them too")
	f.StringVar(&o.markdown, "markdown", "", "`file` to write a table of the figures to")
	f.DurationVar(&o.soak, "soak", 0, "load the product for so `long` instead, and look for errors and for memory that grows")
	f.BoolVar(&o.race, "race", false, "with --soak: load the product a second time, built with the race detector")
	f.BoolVar(&o.capacity, "capacity", false, "measure the resources that each number of pods needs instead")
	real := f.String("real", fallback(env("CAPACITY_REAL"), "100000"),
		"with --capacity: the largest `number` of pods that are created, larger ones are a recorded watch; CAPACITY_REAL sets it too")
	f.StringVar(&o.only, "only", env("BENCH_ONLY"), "measure nothing but `login`, access, audit, terminal, extensions or fleet; BENCH_ONLY sets it too (default: everything)")
	people := f.String("users", env("BENCH_USERS"),
		"`number` of users that rights are measured with; BENCH_USERS sets it too (default: 1000, with --only=access 10000)")
	members := f.String("members", fallback(env("BENCH_MEMBERS"), "100"),
		"with --only=fleet: `number` of members that the hub is measured with; BENCH_MEMBERS sets it too")
	rounds := f.String("rounds", fallback(env("BENCH_ROUNDS"), "5"), "`number` of rounds; BENCH_ROUNDS sets it too")
	if err := f.Parse(args); err != nil {
		return options{}, err
	}
	if f.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	otherwise := "1000"
	switch o.only {
	case "", onlyLogin, onlyAudit, onlyTerminal, onlyExtensions, onlyFleet:
	case onlyAccess:
		otherwise = "10000"
	default:
		return options{}, fmt.Errorf("the part to measure (BENCH_ONLY) is %q, want %q, %q, %q, %q, %q, %q or nothing", o.only, onlyLogin, onlyAccess,
			onlyAudit, onlyTerminal, onlyExtensions, onlyFleet)
	}
	var err error
	if o.people, err = between("the number of users (BENCH_USERS)", fallback(*people, otherwise), minPeople, maxPeople); err != nil {
		return options{}, err
	}
	if o.real, err = between("the largest number of pods to create (CAPACITY_REAL)", *real, minPods, maxPods); err != nil {
		return options{}, err
	}
	for text := range strings.SplitSeq(*pods, ",") {
		n, err := between("the number of pods (BENCH_PODS)", strings.TrimSpace(text), minPods, maxPods)
		if err != nil {
			return options{}, err
		}
		if len(o.pods) > 0 && n <= o.pods[len(o.pods)-1] {
			return options{}, fmt.Errorf("the numbers of pods (BENCH_PODS) are %q, want each larger than the one before", *pods)
		}
		o.pods = append(o.pods, n)
	}
	if o.fleetSize, err = between("the number of members (BENCH_MEMBERS)", *members, minMembers, maxMembers); err != nil {
		return options{}, err
	}
	if o.rounds, err = between("the number of rounds (BENCH_ROUNDS)", *rounds, 1, 100); err != nil {
		return options{}, err
	}
	return o, nil
}

func fallback(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

func between(what, value string, least, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s is %q, want a number from %d to %d", what, value, least, most)
	}
	return n, nil
}
