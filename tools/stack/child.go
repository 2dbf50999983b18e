package stack

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is a process that this one started and waits for.
type child struct {
	process *os.Process
	out     *output
	stopped sync.Once
	killed  bool          // it did not end in time; read after done
	done    chan struct{} // closed when it has ended
	err     error         // how it ended; read after done
}

// start starts cmd, with what it prints going to out, in a process group of its own, so that a Ctrl-C reaches this
// process only, which then ends its children in order. If this process dies, the kernel asks the child to stop.
func start(cmd *exec.Cmd, out *output) (*child, error) {
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = 5 * time.Second // for grandchildren that keep the pipe open
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	c := &child{out: out, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal is sent when the thread that forked ends (prctl(2), PR_SET_PDEATHSIG), so this one has to live as
		// long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		c.process = cmd.Process
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.done)
		}
	}()
	return c, <-started
}

// stop asks the child to end, and kills it after grace. It returns when the child has ended, with an error unless it ended by itself and
// with success: a data race that was found, for example, is an exit code.
func (c *child) stop(grace time.Duration) error {
	c.stopped.Do(func() {
		_ = c.process.Signal(syscall.SIGTERM) // fails when it has ended
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-c.done:
		case <-timer.C:
			c.killed = true
			_ = c.process.Kill()
		}
	})
	<-c.done
	if c.killed {
		return fmt.Errorf("process %d did not stop within %v after SIGTERM and was killed; its last lines:\n%s", c.process.Pid, grace,
			c.out.tail())
	}
	if c.err != nil {
		return fmt.Errorf("process %d ended with %w; its last lines:\n%s", c.process.Pid, c.err, c.out.tail())
	}
	return nil
}

// tailLines is how much of the output an error shows; lineBytes bounds one line of it.
const (
	tailLines = 40
	lineBytes = 4 << 10
)

// output is where a child prints: it passes everything on, stores the last lines, and finds the ready line.
type output struct {
	ready chan string // holds the ready line, once

	mu    sync.Mutex
	to    io.Writer
	part  []byte
	lines []string
	found bool
}

func newOutput(to io.Writer) *output {
	if to == nil {
		to = io.Discard
	}
	return &output{to: to, ready: make(chan string, 1)}
}

// Write receives a piece of output. A log that cannot be written does not stop the child.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = o.to.Write(p)
	rest := p
	for {
		line, after, ended := bytes.Cut(rest, []byte{'\n'})
		o.part = append(o.part, line[:min(len(line), lineBytes-len(o.part))]...)
		if !ended {
			return len(p), nil
		}
		o.line(string(o.part))
		o.part, rest = o.part[:0], after
	}
}

func (o *output) line(s string) {
	if len(o.lines) == tailLines {
		o.lines = append(o.lines[:0], o.lines[1:]...)
	}
	o.lines = append(o.lines, s)
	if !o.found && strings.HasPrefix(s, "READY ") {
		o.found = true
		o.ready <- s
	}
}

// tail returns the last lines that were printed.
func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := o.lines
	if len(o.part) > 0 {
		lines = append(lines[:len(lines):len(lines)], string(o.part))
	}
	return strings.Join(lines, "\n")
}
