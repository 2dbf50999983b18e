package main

import (
	"bufio"
	"context"
	"errors"
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

// maxLog is how many bytes of a program's earlier log are kept at a start.
const maxLog = 32 << 20

// spawner starts processes that the kernel kills when this one dies. That signal depends on the thread that forks (prctl(2),
// PR_SET_PDEATHSIG), so one goroutine does it, on a thread that lives as long as the process.
type spawner struct {
	requests chan func()
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked
		for start := range s.requests {
			start()
		}
	}()
	return s
}

// start starts cmd in a process group of its own: a terminal's Ctrl-C is for this process, which ends its children in order.
func (s *spawner) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	result := make(chan error, 1)
	s.requests <- func() { result <- cmd.Start() }
	return <-result
}

// child is a program that runs for as long as this one.
type child struct {
	name  string
	log   string
	grace time.Duration
	done  chan struct{} // closed when it has ended
	err   error         // how it ended, and at when; read after done
	at    time.Time

	spawner *spawner

	mu       sync.Mutex
	cmd      *exec.Cmd
	stopping bool
}

// launch starts a program with its output going to log/NAME.log and, line by line, to each, which may be nil.
func (s *session) launch(name string, grace time.Duration, each func(line string), file string, args ...string) error {
	cmd := exec.Command(file, args...) //nolint:noctx // ended in order, by stop
	c := &child{name: name, log: s.log(name), grace: grace, cmd: cmd, done: make(chan struct{})}
	log, err := openLog(c.log)
	if err != nil {
		return err
	}
	c.cmd.Stdout, c.cmd.Stderr = log, log
	var lines io.ReadCloser
	if each != nil {
		read, write, err := os.Pipe()
		if err != nil {
			return errors.Join(fmt.Errorf("make a pipe for %s: %w", name, err), log.Close())
		}
		lines, c.cmd.Stdout = read, write
		defer write.Close() // the child has its own
	}
	c.spawner = s.spawner
	if err := s.spawner.start(c.cmd); err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	s.children = append(s.children, c)
	go func() {
		if lines != nil {
			copyLines(lines, log, each)
		}
		c.err = cmd.Wait()
		for lines == nil && s.restart == name && c.revive() {
			s.say("%s was killed: it is started again", name)
			c.err = c.cmd.Wait() // nobody else changes it
		}
		c.at = time.Now()
		_ = log.Close()
		close(c.done)
		s.ended <- c
	}()
	return nil
}

// revive starts a child that was killed again, as it was started, unless it is being stopped.
func (c *child) revive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ended *exec.ExitError
	if c.stopping || !errors.As(c.err, &ended) {
		return false
	}
	if how, ok := ended.Sys().(syscall.WaitStatus); !ok || !how.Signaled() || how.Signal() != syscall.SIGKILL {
		return false
	}
	next := exec.Command(c.cmd.Path, c.cmd.Args[1:]...) //nolint:noctx // ended in order, by stop
	next.Stdout, next.Stderr = c.cmd.Stdout, c.cmd.Stderr
	if err := c.spawner.start(next); err != nil {
		c.err = err
		return false
	}
	c.cmd = next
	return true
}

// copyLines ends with the program, whose end closes the pipe.
func copyLines(from io.ReadCloser, log io.Writer, each func(string)) {
	defer from.Close()
	scanner := bufio.NewScanner(from)
	for scanner.Scan() {
		fmt.Fprintln(log, scanner.Text())
		each(scanner.Text())
	}
	_, _ = io.Copy(log, from) // after a line too long to scan
}

// openLog appends to a log; one that has grown large starts over.
func openLog(file string) (*os.File, error) {
	mode := os.O_APPEND
	if info, err := os.Stat(file); err == nil && info.Size() > maxLog {
		mode = os.O_TRUNC | os.O_APPEND
	}
	log, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|mode, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open a log: %w", err)
	}
	return log, nil
}

// failure says that the child has ended by itself, with its last lines.
func (c *child) failure() error {
	how := "it ended"
	if c.err != nil {
		how = c.err.Error()
	}
	return fmt.Errorf("%s has died: %s; its log is %s%s", c.name, how, c.log, lastLines(c.log))
}

// stop ends the children, the last started first, each when the one before is gone. The error names those that had to be
// killed or ended with a failure.
func (s *session) stop() error {
	var errs []error
	for i := len(s.children) - 1; i >= 0; i-- {
		errs = append(errs, s.children[i].stop())
	}
	return errors.Join(errs...)
}

func (c *child) stop() error {
	select {
	case <-c.done:
		return nil // it ended by itself, which was reported
	default:
	}
	c.mu.Lock()
	c.stopping = true
	process := c.cmd.Process
	c.mu.Unlock()
	_ = process.Signal(syscall.SIGTERM) // fails when it has just ended
	select {
	case <-c.done:
	case <-time.After(c.grace):
		_ = process.Kill()
		<-c.done
		return fmt.Errorf("%s did not stop within %s and was killed", c.name, c.grace)
	}
	if c.err != nil {
		return fmt.Errorf("%s did not stop cleanly: %w; its log is %s%s", c.name, c.err, c.log, lastLines(c.log))
	}
	return nil
}

// tool runs a program to its end and returns what it printed; the error of a failure has it too.
func (s *session) tool(ctx context.Context, env []string, file string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, file, args...)
	cmd.Dir = s.repo
	cmd.Env = append(os.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := s.spawner.start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w%s", strings.Join(append([]string{file}, args...), " "), err, indent(out.String()))
	}
	return out.String(), nil
}

// lastLines returns the end of a log for an error message.
func lastLines(file string) string {
	const most = 4 << 10
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return ""
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return ""
	}
	return indent(string(data))
}

// indent puts the last lines of a text on lines of their own below a message.
func indent(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-10):]
	return ":\n    " + strings.Join(lines, "\n    ")
}
