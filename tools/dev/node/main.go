// Command node is the real node of a development control plane: called as "node kubelet ..." or "node kube-proxy ..." it is that
// program; otherwise it runs both, and containerd, in namespaces of their own. bin/dev starts it.
//
// It is a program of its own because it is built only when a real node is asked for.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics on /metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // build information on /metrics
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"kapis.dev/ks-apiserver/tools/dev/internal/realnode"
)

var errUsage = errors.New("usage: node up CONFIG | kubelet FLAGS | kube-proxy FLAGS")

func main() {
	if len(os.Args) > 1 {
		switch role := os.Args[1]; role {
		case "kubelet":
			os.Args = os.Args[1:]
			os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
		case "kube-proxy":
			os.Args = os.Args[1:]
			os.Exit(cli.Run(kubeproxy.NewProxyCommand()))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}

// run runs the step of the node's start that args name.
func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errUsage
	}
	switch role, config := args[0], args[1]; role {
	case "up":
		return realnode.Up(ctx, config, os.Stderr)
	case "init":
		return realnode.Init(ctx, config)
	case "supervise":
		return realnode.Supervise(ctx, config, os.Stderr)
	default:
		return errUsage
	}
}
