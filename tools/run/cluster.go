package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// planeGrace covers the orderly stop of every component of the control plane.
	planeGrace = 75 * time.Second
	planeReady = "CONTROL PLANE READY"
)

// checkPort fails with one line where a port is taken, before anything has been started.
func checkPort(port int, variable string) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // it does not wait
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %d on 127.0.0.1 is taken by another program: stop that one, or choose another port with %s=", port, variable)
	}
	if err != nil {
		return fmt.Errorf("cannot listen on port %d: %w", port, err)
	}
	return l.Close()
}

// startControlPlane starts it and returns when it is ready. One that runs already, as after `make dev-up`, is used, and not
// stopped in the end.
func (s *session) startControlPlane(ctx context.Context) error {
	if _, err := s.tool(ctx, nil, s.program("dev"), "status", "--dir", s.dir); err == nil {
		s.say("using the control plane that runs already in %s", s.dir)
		return nil
	}
	s.say("starting the control plane")
	ready := make(chan struct{})
	waiting := true
	each := func(line string) {
		if !waiting {
			return
		}
		s.say("  %s", line)
		if strings.HasPrefix(line, planeReady) {
			waiting = false
			close(ready)
		}
	}
	if err := s.launch("dev", planeGrace, each, s.program("dev"), "up", "--foreground", "--dir", s.dir); err != nil {
		return err
	}
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// clusterKubeconfig is the admin's.
func (s *session) clusterKubeconfig() string {
	if s.kubeconfig != "" {
		return s.kubeconfig
	}
	return s.path("kubeconfig")
}

// kubectl is ours, or the one of the machine where only the product was built.
func (s *session) kubectl() string {
	own := s.program("kubectl")
	if _, err := os.Stat(own); err == nil {
		return own
	}
	if found, err := exec.LookPath("kubectl"); err == nil {
		return found
	}
	return own
}

// install applies CRDs, default roles and the console's OAuth client.
func (s *session) install(ctx context.Context) error {
	s.say("installing CRDs and default roles")
	env := []string{"KUBECONFIG=" + s.clusterKubeconfig(), "KUBECTL=" + s.kubectl()}
	printed, err := s.tool(ctx, env, s.repo+"/hack/install.sh")
	if err != nil {
		return fmt.Errorf("install into the cluster: %w", err)
	}
	if strings.Contains(printed, "left as it is") { // an installation that was there before
		s.say("%s", strings.TrimSpace(printed))
	}
	return nil
}
