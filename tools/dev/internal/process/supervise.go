package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Component is a program that a Supervisor keeps running.
type Component struct {
	// Name is the name in messages.
	Name string
	// Command returns a new command for every start; its output goes to Log.
	Command func() *exec.Cmd
	// Log is the file that the program's output is appended to.
	Log string
	// Ready returns nil once the program serves, else what it is waiting for. It is called repeatedly.
	Ready func(context.Context) error
}

// Supervisor starts components one after another, restarts those that die, and stops them in reverse.
// Its methods are not for concurrent use.
type Supervisor struct {
	// Spawner starts the processes.
	Spawner *Spawner
	// Logf logs a message for the user.
	Logf func(format string, args ...any)
	// Backoff is the pause before the first restart; it doubles up to MaxBackoff, and starts over after a life longer
	// than that.
	Backoff, MaxBackoff time.Duration
	// Tries is how often a program may die before it was ever ready; then Start gives up.
	Tries int
	// Poll is the pause between two calls of Ready.
	Poll time.Duration
	// Grace is how long a program has to stop before it is killed.
	Grace time.Duration

	keepers []*keeper
}

// keeper is the goroutine that keeps one component running.
type keeper struct {
	Component
	s      *Supervisor
	quit   chan struct{} // closed by Stop
	ready  chan struct{} // closed by Start
	failed chan error    // gives at most one error, before ready is closed
	done   chan struct{} // closed when the process is gone and will not be started again
}

// Start starts c and returns when it is ready. When it fails, the component may still be running until Stop.
func (s *Supervisor) Start(ctx context.Context, c Component) error {
	k := &keeper{
		Component: c, s: s,
		quit: make(chan struct{}), ready: make(chan struct{}), done: make(chan struct{}),
		failed: make(chan error, 1),
	}
	s.keepers = append(s.keepers, k)
	go k.run()
	for {
		err := c.Ready(ctx)
		if err == nil {
			close(k.ready)
			return nil
		}
		select {
		case failure := <-k.failed:
			return fmt.Errorf("%s does not start: %w", c.Name, failure)
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last answer: %w)", c.Name, context.Cause(ctx), err)
		case <-time.After(s.Poll):
		}
	}
}

// Stop ends all components, the last started first, each when the one before is gone.
func (s *Supervisor) Stop() {
	for i := len(s.keepers) - 1; i >= 0; i-- {
		k := s.keepers[i]
		close(k.quit)
		<-k.done
	}
	s.keepers = nil
}

func (k *keeper) run() {
	defer close(k.done)
	pause := k.s.Backoff
	for try := 1; ; try++ {
		begun := time.Now()
		stopped, err := k.once()
		if stopped {
			return
		}
		if !k.wasReady() && try >= k.s.Tries {
			k.failed <- err
			return
		}
		if time.Since(begun) > k.s.MaxBackoff {
			pause = k.s.Backoff
		}
		k.s.Logf("%s has died (%v), starting it again in %s", k.Name, err, pause)
		select {
		case <-k.quit:
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, k.s.MaxBackoff)
	}
}

func (k *keeper) wasReady() bool {
	select {
	case <-k.ready:
		return true
	default:
		return false
	}
}

// once runs the program until it ends by itself (the reason is returned) or because Stop wants it.
func (k *keeper) once() (stopped bool, err error) {
	cmd, err := k.start()
	if err != nil {
		return false, err
	}
	var how error // valid after ended
	ended := make(chan struct{})
	go func() {
		how = cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		if how == nil {
			how = errors.New("exit status 0")
		}
		return false, how
	case <-k.quit:
	}
	// An error means that it has ended; the channel ended will say so.
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(k.s.Grace):
		k.s.Logf("%s has not stopped in %s, killing it", k.Name, k.s.Grace)
		_ = cmd.Process.Kill()
		<-ended
	}
	return true, nil
}

func (k *keeper) start() (*exec.Cmd, error) {
	// Appending makes it safe to truncate the file while the program writes.
	log, err := os.OpenFile(k.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open its log: %w", err)
	}
	defer log.Close() // the child has its own copy
	cmd := k.Command()
	cmd.Stdout, cmd.Stderr = log, log
	return cmd, k.s.Spawner.Start(cmd)
}
