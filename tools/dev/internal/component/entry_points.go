// Package component holds the entry points of the programs that make up the control plane.
//
// Except for kubectl and the real node, it is the only package of this module that imports Kubernetes, etcd and kwok, so that everything
// else builds and tests in seconds.
package component

import (
	"fmt"
	"os"
	"time"
	_ "time/tzdata" // CronJob time zones, on machines without a zone database

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/etcdctl/v3/ctlv3"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics on /metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // build information on /metrics
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	kwoksignals "sigs.k8s.io/kwok/pkg/utils/signals"

	"kapis.dev/ks-apiserver/tools/dev/internal/kubelet"
)

// Find returns the function that runs the named component until it ends. It reads os.Args as that program would, and may
// end the process itself.
func Find(name string) (func(), bool) {
	switch name {
	case "etcd":
		return func() { etcdmain.Main(os.Args) }, true
	case "etcdctl":
		return ctlv3.MustStart, true
	case "etcdutl":
		return runEtcdutl, true
	case "kube-apiserver":
		return func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) }, true
	case "kube-controller-manager":
		return func() { os.Exit(cli.Run(controllermanager.NewControllerManagerCommand())) }, true
	case "kube-scheduler":
		return func() { os.Exit(cli.Run(scheduler.NewSchedulerCommand())) }, true
	case "kwok":
		return runKwok, true
	case "kubelet":
		return runKubelet, true
	default:
		return nil, false
	}
}

// runEtcdutl has the command of etcd's own etcdutl that restores snapshots, whose main package can't be imported.
func runEtcdutl() {
	root := &cobra.Command{Use: "etcdutl", Short: "Works with the files of etcd"}
	root.PersistentFlags().StringVarP(&etcdutl.OutputFormat, "write-out", "w", "simple", "fields, json, protobuf, simple or table")
	root.PersistentFlags().DurationVar(&etcdutl.FlockTimeout, "timeout", 10*time.Second, "how long to wait for the lock of a database; 0 is for ever")
	root.AddCommand(etcdutl.NewSnapshotCommand())
	if err := root.Execute(); err != nil {
		os.Exit(1) // the command has printed it
	}
}

func runKubelet() {
	if err := kubelet.Main(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet:", err)
		os.Exit(1)
	}
}

// runKwok reads its flags twice: the configuration file that --config names gives the other flags their defaults.
func runKwok() {
	ForgetFlags()
	early := pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	early.ParseErrorsAllowlist.UnknownFlags = true
	early.Usage = func() {}
	ctx, _ := kwoklog.InitFlags(kwoksignals.SetupSignalContext(), early)
	ctx, err := kwokconfig.InitFlags(ctx, early)
	if err == nil {
		command := kwok.NewCommand(ctx)
		command.PersistentFlags().AddFlagSet(early)
		err = command.ExecuteContext(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		os.Exit(1)
	}
}

// ForgetFlags removes the global command-line flags that libraries of the Kubernetes components register when the program starts, such
// as a --version that is no boolean. Only the Kubernetes components themselves need them.
func ForgetFlags() {
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ExitOnError)
}
