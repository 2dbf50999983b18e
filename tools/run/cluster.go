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

// checkPort fails with one line where a port is in use, before anything has been started.
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

// startControlPlane starts the control plane and returns when it is ready. A running one, as after `make dev-up`, is used, and not
// stopped in the end.
func (s *session) startControlPlane(ctx context.Context) error {
	if _, err := s.tool(ctx, nil, s.program("dev"), "status", "--dir", s.dir); err == nil {
		s.say("using the control plane that runs already in %s", s.dir)
		if _, err := os.Stat(s.path("conf", "real-node.json")); s.node != "" && err != nil {
			s.say("no real node: that control plane was started without one; `make dev-down` stops it")
		}
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
	args := []string{"up", "--foreground", "--dir", s.dir}
	if s.node != "" {
		args = append(args, "--node", s.node)
	}
	if err := s.launch("dev", planeGrace, each, s.program("dev"), args...); err != nil {
		return err
	}
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// clusterKubeconfig returns the admin's kubeconfig.
func (s *session) clusterKubeconfig() string {
	if s.kubeconfig != "" {
		return s.kubeconfig
	}
	return s.path("kubeconfig")
}

// kubectl returns our kubectl, or the one of the machine where only the product was built.
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

// install applies CRDs, default roles and OAuth clients.
func (s *session) install(ctx context.Context) error {
	s.say("installing CRDs and default roles")
	env := []string{"KUBECONFIG=" + s.clusterKubeconfig(), "KUBECTL=" + s.kubectl()}
	if s.kubeconfig == "" {
		env = append(env, "CONSOLE_CLIENT_SECRET_FOR_LOOPBACK="+devConsoleSecret)
	}
	printed, err := s.tool(ctx, env, s.repo+"/hack/install.sh")
	if err != nil {
		return fmt.Errorf("install into the cluster: %w", err)
	}
	if strings.Contains(printed, "left as it is") { // an existing installation
		s.say("%s", strings.TrimSpace(printed))
	}
	if s.fleet {
		if _, err := s.tool(ctx, env, s.kubectl(), "apply", "-f", s.repo+"/config/fleet/hub/rbac.yaml"); err != nil {
			return fmt.Errorf("install what a hub has: %w", err)
		}
	}
	return s.readConsoleSecret(ctx)
}
