package helm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Bounds of what a child says.
const (
	maxLine    = 8 << 20  // bytes of a line: a result with a manifest
	maxOutput  = 16 << 20 // bytes of all lines
	maxMessage = 4 << 10  // bytes of a message
	maxTail    = 2 << 10  // bytes that are kept of its standard error
)

// process is one child.
type process struct {
	program                []string
	timeout, renderTimeout time.Duration
	redact                 *Redactor
	event                  func(Event)

	mu    sync.Mutex
	ended *Error // why it was killed: the first reason
	kill  func() error
	// rendering ends the operation; nil outside of the phase.
	rendering *time.Timer
}

// end kills the child, and notes why.
func (p *process) end(reason Reason, transient bool, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended != nil {
		return
	}
	p.ended = &Error{Reason: reason, Transient: transient, Message: fmt.Sprintf("Helm operation: "+format, args...)}
	_ = p.kill() // it may have ended already
}

func (p *process) run(ctx context.Context, job Job) (*Result, error) {
	input, err := json.Marshal(job)
	if err != nil {
		return nil, &Error{Reason: ReasonInvalid, Message: "Helm operation: " + err.Error()}
	}
	type outcome struct {
		result *Result
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		// Linux sends the signal of Pdeathsig when the thread ends that started the child, not the process. So this goroutine keeps its
		// thread until the child has ended, and the thread lives as long as this program otherwise.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		result, err := p.supervise(ctx, input)
		done <- outcome{result, err}
	}()
	o := <-done
	return o.result, o.err
}

// supervise starts the child and returns when it has ended.
func (p *process) supervise(ctx context.Context, input []byte) (*Result, error) {
	cmd := exec.Command(p.program[0], p.program[1:]...) //nolint:noctx // end kills it, and says why
	// Nowhere to write to, no proxies, no credentials. The garbage collector works harder well below the bound at which the child is
	// killed.
	cmd.Env = []string{"HOME=/nonexistent", "TMPDIR=/nonexistent", "GOMEMLIMIT=" + strconv.Itoa(memoryLimit*3/4)}
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(input)
	says := &complaint{}
	cmd.Stderr = says
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, &Error{Reason: ReasonInterrupted, Transient: true, Message: "Helm operation: " + err.Error()}
	}
	if err := cmd.Start(); err != nil {
		return nil, &Error{Reason: ReasonInterrupted, Transient: true, Message: "Helm operation: start a process: " + err.Error()}
	}
	p.kill = cmd.Process.Kill

	stop := make(chan struct{})
	var watchers sync.WaitGroup
	watchers.Go(func() { p.watch(ctx, cmd.Process.Pid, stop) })
	last := p.read(stdout)
	if last != nil {
		_ = p.kill() // it has nothing left to do
	}
	err = cmd.Wait()
	close(stop)
	watchers.Wait()
	p.phase("")
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()

	switch {
	case last != nil && last.Error != nil:
		return last.Result, last.Error
	case last != nil && last.Result != nil:
		return last.Result, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case ended != nil:
		return nil, ended
	}
	said := says.String()
	// What the runtime of Go says at the bound that the kernel enforces, and at that of stacks.
	if strings.Contains(says.crash, "allocate memory") || strings.Contains(says.crash, "out of memory") ||
		strings.Contains(says.crash, "stack overflow") {
		return nil, &Error{Reason: ReasonMemory, Message: "Helm operation: it took more memory than it may, and ended: " + says.crash}
	}
	why := "its process ended"
	if err != nil {
		why = "its process ended: " + err.Error()
	}
	if said = p.redact.text(said); said != "" {
		why += ": " + Clip(said, maxMessage)
	}
	return nil, &Error{Reason: ReasonInterrupted, Transient: true, Message: "Helm operation: " + why}
}

// watch kills the child when it has too much memory, takes too long, or is not wanted any more.
func (p *process) watch(ctx context.Context, pid int, stop <-chan struct{}) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	over := time.NewTimer(p.timeout)
	defer over.Stop()
	given := ctx.Done()
	for {
		select {
		case <-stop:
			return
		case <-given:
			given = nil // once is enough
			p.end(ReasonInterrupted, true, "it was given up: %v", ctx.Err())
		case <-over.C:
			p.end(ReasonTimeout, true, "it took longer than %s (helmExecutor.timeout), and was killed", p.timeout)
		case <-tick.C:
			if size := resident(pid); size > memoryLimit {
				p.end(ReasonMemory, false, "it took more than %d MiB of memory, and was killed", memoryLimit>>20)
			}
		}
	}
}

// resident returns how many bytes of memory a process has, 0 where it has ended.
func resident(pid int) int {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(fields[1])
	return pages * os.Getpagesize()
}

// phase starts and stops the time limit of rendering.
func (p *process) phase(now Phase) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now == PhaseRendering && p.rendering == nil {
		p.rendering = time.AfterFunc(p.renderTimeout, func() {
			p.end(ReasonTimeout, false, "the chart took longer than %s to render, and the operation was killed", p.renderTimeout)
		})
	}
	if now != PhaseRendering && p.rendering != nil {
		p.rendering.Stop()
		p.rendering = nil
	}
}

// read passes events on and returns the last line, nil where there is none. A child that says too much, or not what it should, is
// killed.
func (p *process) read(from io.Reader) *Line {
	rest := &io.LimitedReader{R: from, N: maxOutput}
	scanner := bufio.NewScanner(rest)
	scanner.Buffer(make([]byte, 0, 64<<10), maxLine)
	for scanner.Scan() {
		line := &Line{}
		if err := json.Unmarshal(scanner.Bytes(), line); err != nil {
			if rest.N == 0 {
				break // the line was cut
			}
			p.end(ReasonInterrupted, false, "its process wrote a line that is no event")
			return nil
		}
		p.redact.Clean(line)
		if line.Done {
			return line
		}
		if line.Phase != "" {
			p.phase(line.Phase)
		}
		if p.event != nil {
			p.event(line.Event)
		}
	}
	if err := scanner.Err(); errors.Is(err, bufio.ErrTooLong) {
		p.end(ReasonTooLarge, false, "its process wrote a line of more than %d bytes", maxLine)
	} else if rest.N == 0 {
		p.end(ReasonTooLarge, false, "its process wrote more than %d bytes", maxOutput)
	}
	return nil
}

// complaint is what a child says on its standard error: the end of it, and the line with which the runtime of Go ends a program.
type complaint struct {
	tail, line []byte
	crash      string
}

func (c *complaint) Write(b []byte) (int, error) {
	for part := range bytes.Lines(b) {
		c.line = append(c.line, part[:min(len(part), maxMessage-len(c.line))]...)
		if part[len(part)-1] != '\n' {
			break
		}
		if c.crash == "" && (bytes.HasPrefix(c.line, []byte("fatal error: ")) || bytes.HasPrefix(c.line, []byte("panic: "))) {
			c.crash = string(bytes.TrimSpace(c.line))
		}
		c.line = c.line[:0]
	}
	c.tail = append(c.tail, b[max(0, len(b)-maxTail):]...)
	c.tail = c.tail[max(0, len(c.tail)-maxTail):]
	return len(b), nil
}

// String returns the line of the runtime, or else the end.
func (c *complaint) String() string {
	if c.crash != "" {
		return strings.ToValidUTF8(c.crash, "")
	}
	return strings.ToValidUTF8(string(bytes.TrimSpace(c.tail)), "")
}
