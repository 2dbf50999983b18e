package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"kapis.dev/ks-apiserver/tools/dev/internal/pki"
	"kapis.dev/ks-apiserver/tools/dev/internal/process"
	"kapis.dev/ks-apiserver/tools/dev/internal/realnode"
)

const (
	// startTimeout bounds a start; a slow machine under load needs a minute.
	startTimeout = 5 * time.Minute
	// stopGrace is how long each component has to stop by itself.
	stopGrace = 10 * time.Second

	readyLine = "CONTROL PLANE READY"
)

// upOptions are the options of a start.
type upOptions struct {
	// port is that of kube-apiserver; 0 picks one.
	port int
	// real asks for a real node.
	real bool
}

// up runs the control plane until ctx ends. It writes progress and the ready line to out.
func up(ctx context.Context, l layout, o upOptions, out io.Writer) error {
	begun := time.Now()
	logf := func(format string, args ...any) {
		fmt.Fprintf(out, "%6.1fs  %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}
	if err := l.create(); err != nil {
		return err
	}
	lock, err := l.acquire()
	if err != nil {
		return err
	}
	defer lock.Close()
	defer func() { _ = os.Remove(l.supervisor()) }() // a file that stays is recognized as stale
	if err := endLeftovers(ctx, l, logf); err != nil {
		return err
	}
	var claim *realnode.Claim
	if o.real {
		if claim, err = claimRealNode(ctx); err != nil {
			logf("no real node: %v", err)
		} else {
			defer claim.Release()
		}
	}
	i, err := prepare(l, o.port, claim)
	if err != nil {
		return err
	}
	defer i.claims.Close()

	c, err := newClients(l, i.ports)
	if err != nil {
		return err
	}
	background, cancel := context.WithCancel(context.Background())
	defer cancel()
	go boundLogs(background, l, logf)

	s := newSupervisor(logf)
	defer i.stop(s, logf)
	if err := i.start(ctx, s, c, logf); err != nil {
		return err
	}
	fmt.Fprintln(out, readyLine, i.ports.server())
	<-ctx.Done()
	logf("stopping")
	return nil
}

func newSupervisor(logf func(string, ...any)) *process.Supervisor {
	return &process.Supervisor{
		Spawner:    process.NewSpawner(),
		Logf:       logf,
		Backoff:    500 * time.Millisecond,
		MaxBackoff: 10 * time.Second,
		Tries:      3,
		Poll:       50 * time.Millisecond,
		Grace:      stopGrace,
	}
}

// acquire takes the instance's lock, or says which process has it.
func (l layout) acquire() (*os.File, error) {
	lock, err := process.Lock(l.lock())
	if !errors.Is(err, process.ErrLocked) {
		return lock, err
	}
	if id, running := l.running(); running {
		return nil, fmt.Errorf("a control plane already runs in %s (process %d); `dev down --dir %s` stops it", l.dir, id.PID, l.dir)
	}
	return nil, fmt.Errorf("a control plane is just starting or stopping in %s; try again in a moment", l.dir)
}

// running finds the supervisor of this instance.
func (l layout) running() (process.Identity, bool) {
	data, err := os.ReadFile(l.supervisor())
	if err != nil {
		return process.Identity{}, false
	}
	var id process.Identity
	if err := json.Unmarshal(data, &id); err != nil {
		return process.Identity{}, false
	}
	return id, id.Alive()
}

// endLeftovers removes what an earlier run left. The lock is held.
func endLeftovers(ctx context.Context, l layout, logf func(string, ...any)) error {
	killed, err := process.KillMarked(ctx, l.mark())
	if err != nil {
		return fmt.Errorf("end what an earlier run left behind: %w", err)
	}
	if killed > 0 {
		logf("ended %d processes that an earlier run left behind", killed)
	}
	return realnode.Clean(ctx, l.realNode(), realnode.None)
}

// prepare writes everything that the components read. The lock is held, and claim is that of the real node, or nil.
func prepare(l layout, fixedPort int, claim *realnode.Claim) (instance, error) {
	me, err := process.Identify(os.Getpid())
	if err != nil {
		return instance{}, err
	}
	data, err := json.Marshal(me)
	if err != nil {
		return instance{}, fmt.Errorf("encode who this is: %w", err)
	}
	if err := pki.WriteFile(l.supervisor(), data, 0o600); err != nil {
		return instance{}, err
	}
	i := instance{layout: l}
	if i.ports, i.claims, err = choosePorts(l.ports(), fixedPort); err != nil {
		return instance{}, err
	}
	if claim != nil {
		i.real = i.realNodeOf(claim.Index)
	}
	now := time.Now()
	if err := ensureCertificates(l, now, i.real); err != nil {
		return instance{}, err
	}
	if err := i.writeContainerLogs(now); err != nil {
		return instance{}, err
	}
	if err := rotateLogs(l); err != nil {
		return instance{}, err
	}
	return i, i.writeConfigs()
}

func (i instance) start(ctx context.Context, s *process.Supervisor, clients clients, logf func(string, ...any)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready within %s", startTimeout))
	defer cancel()
	for _, c := range i.components(clients) {
		if err := s.Start(ctx, c); err != nil {
			return fmt.Errorf("%w; its log is %s%s", err, c.Log, lastLines(c.Log))
		}
		logf("%s is ready", c.Name)
		if c.Name != "kube-apiserver" {
			continue
		}
		// At once, so that the controllers find the nodes when they start.
		if err := ensureNodes(ctx, clients.kube, i.ports.Kubelet); err != nil {
			return err
		}
		if err := i.admitRealNode(ctx, clients.kube); err != nil {
			return err
		}
	}
	if err := wait(ctx, s.Poll, usable(clients.kube)); err != nil {
		return fmt.Errorf("wait for the nodes and the default service account: %w", err)
	}
	logf("%d simulated nodes are ready", nodeCount)
	if i.real == nil {
		return nil
	}
	return i.startRealNode(ctx, s, clients.kube, logf)
}

// wait calls ask again and again until it returns nil.
func wait(ctx context.Context, every time.Duration, ask func(context.Context) error) error {
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last answer: %w)", context.Cause(ctx), err)
		case <-time.After(every):
		}
	}
}

func (i instance) stop(s *process.Supervisor, logf func(string, ...any)) {
	s.Stop()
	// Commands in simulated containers may still be running.
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	if _, err := process.KillMarked(ctx, i.mark()); err != nil {
		logf("cannot end the commands of simulated containers: %v", err)
	}
	if i.real != nil {
		if err := realnode.Clean(ctx, i.realNode(), i.real.Index); err != nil {
			logf("cannot remove what the real node has made: %v", err)
		}
	}
	logf("stopped")
}
