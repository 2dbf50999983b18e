package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"kapis.dev/ks-apiserver/tools/port"
)

// pollEvery is the pause between two checks whether a starting server is ready.
const pollEvery = 20 * time.Millisecond

// Replica is one more ks-apiserver next to the instance's own.
type Replica struct {
	// Server is its plain HTTP address; it has no other.
	Server
	// PID is its process number.
	PID int

	child  *child
	forget func()
}

// Replica starts another ks-apiserver with the command line, the environment and the working folder of the running one, on
// a port of its own and with the extra arguments, and returns when its /readyz says 200. Stop of the Stack ends it too.
func (s *Stack) Replica(ctx context.Context, extra ...string) (*Replica, error) {
	return s.replica(ctx, nil, nil, extra)
}

// LoggedReplica is Replica with its output written to log; nil drops it.
func (s *Stack) LoggedReplica(ctx context.Context, log io.Writer, extra ...string) (*Replica, error) {
	return s.replica(ctx, log, nil, extra)
}

// ReplicaWithEnv is Replica with further NAME=value pairs in its environment.
func (s *Stack) ReplicaWithEnv(ctx context.Context, env []string, extra ...string) (*Replica, error) {
	return s.replica(ctx, nil, env, extra)
}

// LoggedReplicaWithEnv is both.
func (s *Stack) LoggedReplicaWithEnv(ctx context.Context, log io.Writer, env []string, extra ...string) (*Replica, error) {
	return s.replica(ctx, log, env, extra)
}

func (s *Stack) replica(ctx context.Context, log io.Writer, env, extra []string) (*Replica, error) {
	cmd, err := s.command("ks-apiserver")
	if err != nil {
		return nil, fmt.Errorf("start a replica: %w", err)
	}
	own, err := port.Reserve()
	if err != nil {
		return nil, fmt.Errorf("start a replica: %w", err)
	}
	// The last of several equal flags counts.
	cmd.Args = append(cmd.Args, "--insecure-port="+strconv.Itoa(own), "--secure-port=0")
	cmd.Args = append(cmd.Args, extra...)
	cmd.Env = append(cmd.Env, env...) // here too
	out := newOutput(log)
	r := &Replica{Server: Server{URL: "http://127.0.0.1:" + strconv.Itoa(own)}}
	if err := s.adopt(r, cmd, out); err != nil {
		return nil, fmt.Errorf("start a replica: %w", err)
	}
	if err := r.awaitReady(ctx); err != nil {
		_ = r.Stop() // its exit status does not matter
		r.forget()
		return nil, fmt.Errorf("start a replica: %w; its last lines:\n%s", err, out.tail())
	}
	return r, nil
}

// Manager starts another ks-controller-manager with the command line, the environment and the working folder of the running one, without
// webhooks and with the extra arguments. It returns at once, and what it returns has no address. Stop of the Stack ends it too.
func (s *Stack) Manager(extra ...string) (*Replica, error) {
	cmd, err := s.command("ks-controller-manager")
	if err != nil {
		return nil, fmt.Errorf("start a second ks-controller-manager: %w", err)
	}
	cmd.Args = append(cmd.Args, "--webhook-port=0")
	cmd.Args = append(cmd.Args, extra...)
	r := &Replica{}
	if err := s.adopt(r, cmd, newOutput(nil)); err != nil {
		return nil, fmt.Errorf("start a second ks-controller-manager: %w", err)
	}
	return r, nil
}

// adopt starts a replica, which Stop of the Stack will end.
func (s *Stack) adopt(r *Replica, cmd *exec.Cmd, out *output) (err error) {
	if r.child, err = start(cmd, out); err != nil {
		return err
	}
	r.PID = r.child.process.Pid
	r.forget = func() { s.forget(r) }
	s.mu.Lock()
	s.replicas = append(s.replicas, r)
	s.mu.Unlock()
	return nil
}

// command returns the command with which a running program of the product was started.
func (s *Stack) command(name string) (*exec.Cmd, error) {
	pid, ok := s.Process(name)
	if !ok {
		return nil, fmt.Errorf("no %s runs that could be copied", name)
	}
	argv, err := commandLine(pid)
	if err != nil {
		return nil, fmt.Errorf("read how %s was started: %w", name, err)
	}
	if len(argv) == 0 {
		return nil, fmt.Errorf("the running %s has just ended", name)
	}
	proc := fmt.Sprintf("/proc/%d/", pid)
	exe, err := os.Readlink(proc + "exe")
	if err != nil {
		return nil, fmt.Errorf("find the program of %s: %w", name, err)
	}
	cwd, err := os.Readlink(proc + "cwd")
	if err != nil {
		return nil, fmt.Errorf("find the working folder of %s: %w", name, err)
	}
	env, err := nulSeparated(proc + "environ")
	if err != nil {
		return nil, fmt.Errorf("read the environment of %s: %w", name, err)
	}
	return &exec.Cmd{Path: exe, Args: argv, Dir: cwd, Env: env}, nil
}

func (r *Replica) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	last := errors.New("it was not asked")
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.child.done:
			return fmt.Errorf("it ended: %w", cmp.Or(r.child.err, errSuccess))
		case <-ctx.Done():
			return fmt.Errorf("wait for /readyz: %w (%w)", context.Cause(ctx), last)
		case <-tick.C:
		}
		resp, err := r.Do(ctx, Request{Path: "/readyz"})
		switch {
		case err != nil:
			last = err
		case resp.Status == http.StatusOK:
			return nil
		default:
			last = fmt.Errorf("it answered %d: %s", resp.Status, resp.begin())
		}
	}
}

// forget removes a replica that did not start, or was killed, from the list of those that Stop ends.
func (s *Stack) forget(r *Replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicas = slices.DeleteFunc(s.replicas, func(other *Replica) bool { return other == r })
}

// Stop ends the replica and returns when it is gone. The error says that it had to be killed, or ended with a failure. A
// second call returns the same.
func (r *Replica) Stop() error {
	if err := r.child.stop(replicaStopTimeout); err != nil {
		return fmt.Errorf("stop a replica: %w", err)
	}
	return nil
}

// Kill ends the replica as a crash would (SIGKILL), and returns when it is dead.
func (r *Replica) Kill() {
	r.forget()
	_ = r.child.process.Kill() // fails when it has ended
	<-r.child.done
}
