package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// readyTimeout bounds the start of the cluster, on a machine that is busy.
const readyTimeout = 10 * time.Minute

// startCluster starts a control plane and the product, as `make run` does, and returns what stops them.
func startCluster(ctx context.Context, o options) (stop func() error, err error) {
	args := []string{"--dir", o.dir, "--bin", o.bin}
	for _, name := range []string{"--port", "--tls-port"} {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		args = append(args, name, strconv.Itoa(port))
	}
	if o.real {
		args = append(args, "--node", "real")
	}
	cmd := exec.Command(filepath.Join(o.bin, "run"), args...) //nolint:noctx // stopped in order
	cmd.Stderr = os.Stderr
	// A terminal's Ctrl-C is for this process: the tests end before their cluster.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the cluster: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the cluster: %w", err)
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "READY ") {
				close(ready)
			}
		}
		ended <- cmd.Wait()
	}()
	stop = func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails when it has ended
		if err := <-ended; err != nil {
			return fmt.Errorf("stop the cluster: %w", err)
		}
		return nil
	}
	fmt.Printf("starting a cluster in %s\n", o.dir)
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	select {
	case <-ready:
		return stop, nil
	case err := <-ended:
		return nil, fmt.Errorf("start the cluster: it ended: %w; its logs are in %s", err, filepath.Join(o.dir, "log"))
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("start the cluster: %w; its logs are in %s", ctx.Err(), filepath.Join(o.dir, "log")), stop())
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed at once
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}
