// Package stack starts the product as a user would, with the program behind `make run`, and gives end-to-end tests and the benchmark what
// they need of it: addresses, logins, clients of both API servers, and information about its processes. Linux only, since it reads /proc.
package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kapis.dev/ks-apiserver/tools/port"
)

const (
	// readyTimeout bounds the wait for READY: a slow machine that also starts a control plane for the first time.
	readyTimeout = 15 * time.Minute
	// replicaStopTimeout bounds the stop of a replica: 30 s for open requests (contract of ks-apiserver), on a slow machine.
	replicaStopTimeout = 90 * time.Second
	// stopTimeout bounds the stop of an instance. It is longer than all that run gives to what it has started, one after the other: two
	// programs, the control plane, and two members with theirs.
	stopTimeout = 7 * time.Minute
	// module is the first line of the go.mod next to the config folder that `run` installs.
	module = "module kapis.dev/ks-apiserver\n"
)

// Options say what to start.
type Options struct {
	// Bin is the folder of run, ks-apiserver, ks-controller-manager, dev and kubectl.
	Bin string
	// Dir is the folder of the instance's state; several folders are several instances.
	Dir string
	// Repo is the checkout whose config folder is installed; "" is the one around the working folder or, failing that,
	// around Bin.
	Repo string
	// Kubeconfig is a file of an existing cluster; "" starts a control plane.
	Kubeconfig string
	// Args are further arguments of run.
	Args []string
	// Env are NAME=value pairs besides this process's own.
	Env []string
	// Log receives what run prints; nil drops it.
	Log io.Writer
}

// errSuccess is the end of a process that should have stayed, with code 0.
var errSuccess = errors.New("exit status 0")

// Stack is a running instance.
type Stack struct {
	// Server is the plain HTTP address: its URL, Do and Login.
	Server
	// TLSURL is the base of the HTTPS address, without a slash at the end.
	TLSURL string
	// Dir is the folder of the instance's state, absolute.
	Dir string
	// AdminPassword is the password of the user admin.
	AdminPassword string

	bin        string
	kubeconfig string
	run        *child

	mu       sync.Mutex
	replicas []*Replica
}

// Start runs the product and returns when logins, queries and the admin's writes work. ctx bounds that wait only: what was started lasts
// until Stop, or until this process dies. The error of a start that failed ends with what run printed last.
func Start(ctx context.Context, o Options) (*Stack, error) {
	s, cmd, err := prepare(o)
	if err != nil {
		return nil, err
	}
	out := newOutput(o.Log)
	if s.run, err = start(cmd, out); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	err = s.awaitReady(ctx)
	if err == nil {
		s.AdminPassword, err = adminPassword(s.Dir, cmd.Env)
	}
	if err != nil {
		_ = s.Stop() // its exit status does not matter
		return nil, err
	}
	return s, nil
}

func prepare(o Options) (*Stack, *exec.Cmd, error) {
	bin, err := filepath.Abs(o.Bin)
	if err != nil {
		return nil, nil, fmt.Errorf("find the folder of the programs %q: %w", o.Bin, err)
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, nil, fmt.Errorf("find the state folder %q: %w", o.Dir, err)
	}
	repo := o.Repo
	if repo == "" {
		if repo, err = Repo(".", bin); err != nil {
			return nil, nil, err
		}
	}
	plain, err := port.Reserve()
	if err != nil {
		return nil, nil, err
	}
	secure, err := port.Reserve()
	if err != nil {
		return nil, nil, err
	}
	s := &Stack{Dir: dir, bin: bin, kubeconfig: filepath.Join(dir, "kubeconfig")}
	args := []string{"--dir", dir, "--bin", bin, "--port", strconv.Itoa(plain), "--tls-port", strconv.Itoa(secure)}
	if o.Kubeconfig != "" {
		if s.kubeconfig, err = filepath.Abs(o.Kubeconfig); err != nil {
			return nil, nil, fmt.Errorf("find the kubeconfig %q: %w", o.Kubeconfig, err)
		}
		args = append(args, "--kubeconfig", s.kubeconfig)
	}
	cmd := exec.Command(filepath.Join(bin, "run"), append(args, o.Args...)...) //nolint:noctx // ended in order by Stop
	cmd.Dir = repo
	cmd.Env = append(withoutKubeconfig(os.Environ()), o.Env...)
	return s, cmd, nil
}

// withoutKubeconfig removes KUBECONFIG, which would make a test use the user's cluster instead of its own control plane.
func withoutKubeconfig(env []string) []string {
	kept := make([]string, 0, len(env))
	for _, e := range env {
		if !strings.HasPrefix(e, "KUBECONFIG=") {
			kept = append(kept, e)
		}
	}
	return kept
}

func (s *Stack) awaitReady(ctx context.Context) error {
	out := s.run.out
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	select {
	case line := <-out.ready:
		var err error
		s.URL, s.TLSURL, err = parseReady(line)
		return err
	case <-s.run.done:
		return fmt.Errorf("run ended before it was ready: %w; its last lines:\n%s", cmp.Or(s.run.err, errSuccess), out.tail())
	case <-ctx.Done():
		return fmt.Errorf("wait for run to be ready: %w; its last lines:\n%s", context.Cause(ctx), out.tail())
	}
}

// parseReady parses `READY http://HOST:PORT https://HOST:PORT`.
func parseReady(line string) (url, tlsURL string, err error) {
	f := strings.Fields(line)
	if len(f) != 3 || f[0] != "READY" || !strings.HasPrefix(f[1], "http://") || !strings.HasPrefix(f[2], "https://") {
		return "", "", fmt.Errorf("run printed %q, want READY http://HOST:PORT https://HOST:PORT", line)
	}
	return strings.TrimSuffix(f[1], "/"), strings.TrimSuffix(f[2], "/"), nil
}

// adminPassword reads the password that run chose, or was given.
func adminPassword(dir string, env []string) (string, error) {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], "ADMIN_PASSWORD="); ok && v != "" {
			return v, nil
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "admin-password"))
	if err != nil {
		return "", fmt.Errorf("read the admin's password: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// Stop ends the replicas, then the instance, and returns when all of it is gone. The error says which of them had to be killed, or ended
// with a failure, now or earlier. A second call returns the same.
func (s *Stack) Stop() error {
	s.mu.Lock()
	replicas := slices.Clone(s.replicas)
	s.mu.Unlock()
	var errs []error
	for _, r := range replicas {
		errs = append(errs, r.Stop())
	}
	return errors.Join(append(errs, s.run.stop(stopTimeout))...)
}

// Kill ends the instance as a crash would, and returns when it is dead: its children must notice by themselves.
func (s *Stack) Kill() {
	_ = s.run.process.Kill() // fails when it has ended
	<-s.run.done
}

// Program returns the file of one of the programs that the instance was started with: ks-apiserver, kubectl ...
func (s *Stack) Program(name string) string { return filepath.Join(s.bin, name) }

// Done returns a channel that is closed when the instance has ended, by Stop or by itself.
func (s *Stack) Done() <-chan struct{} { return s.run.done }

// RESTConfig returns the configuration of kube-apiserver itself, as its admin. Its requests are not throttled.
func (s *Stack) RESTConfig() (*rest.Config, error) { return restConfig(s.kubeconfig) }

// KSConfig returns the configuration of ks-apiserver's HTTPS address, logged in as admin.
func (s *Stack) KSConfig() (*rest.Config, error) {
	return restConfig(filepath.Join(s.Dir, "ks.kubeconfig"))
}

func restConfig(file string) (*rest.Config, error) {
	c, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	c.QPS = -1 // no client-side limit
	return c, nil
}

// KubeClient returns a client of kube-apiserver itself, as its admin.
func (s *Stack) KubeClient() (*kubernetes.Clientset, error) {
	c, err := s.RESTConfig()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(c)
}

// Repo returns the checkout of this project around the first of the folders that is in one.
func Repo(from ...string) (string, error) {
	for _, f := range from {
		dir, err := filepath.Abs(f)
		if err != nil {
			return "", fmt.Errorf("find the folder %q: %w", f, err)
		}
		for ; ; dir = filepath.Dir(dir) {
			b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			if err == nil && strings.HasPrefix(string(b), module) {
				return dir, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", fmt.Errorf("no checkout of this project around %s: start it from inside one", strings.Join(from, " or "))
}
