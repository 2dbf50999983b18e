// Command dev runs a real Kubernetes control plane on this machine, for development and tests.
//
// It is one program with many roles: called as "dev COMPONENT ..." it is that component (etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kwok), and otherwise it is the supervisor that starts itself in those roles. One file is
// smaller than five, since they share most of their code.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"kapis.dev/ks-apiserver/tools/dev/internal/component"
	"kapis.dev/ks-apiserver/tools/dev/internal/plane"
)

func main() {
	if run, ok := role(os.Args); ok {
		run()
		return
	}
	component.ForgetFlags()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := plane.NewCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dev:", err)
		os.Exit(1)
	}
}

// role finds the component that this process was started as, and leaves os.Args as that component expects them.
func role(args []string) (func(), bool) {
	if len(args) < 2 {
		return nil, false
	}
	run, ok := component.Find(args[1])
	if ok {
		os.Args = args[1:]
	}
	return run, ok
}
