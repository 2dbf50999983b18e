package helm

import (
	"context"
	"os"
	"sync"
	"time"
)

// Subcommand is the argument of ks-controller-manager that makes it a child of an executor.
const Subcommand = "helm-operation"

const (
	atOnce        = 4
	renderTimeout = 2 * time.Minute
	memoryLimit   = MemoryScale * 512 << 20
)

// Options are what an executor is made of.
type Options struct {
	// Program starts a child; nil for this program's own file, with the argument Subcommand.
	Program []string
	// Timeout ends an operation; 10 minutes where it is 0. Hooks get nine tenths of it, so that a rollback has the rest.
	Timeout time.Duration
	// RenderTimeout ends an operation that renders; 2 minutes where it is 0.
	RenderTimeout time.Duration
	// HistoryMax is how many revisions of a release are kept; 5 where it is 0.
	HistoryMax int
}

// Executor runs operations: at most four at once, and one of a release.
type Executor struct {
	options Options
	slots   chan struct{}

	mu   sync.Mutex
	busy map[release]chan struct{} // closed when the operation is over
}

type release struct{ host, namespace, name string }

// New returns an executor.
func New(o Options) *Executor {
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Minute
	}
	if o.RenderTimeout == 0 {
		o.RenderTimeout = renderTimeout
	}
	if o.HistoryMax == 0 {
		o.HistoryMax = 5
	}
	return &Executor{options: o, slots: make(chan struct{}, atOnce), busy: map[release]chan struct{}{}}
}

// Run runs one operation, and calls event for what happens until it returns. An operation on a release waits for the one before it. The
// error is an *Error, or that of ctx, at whose end the child is killed.
func (e *Executor) Run(ctx context.Context, r Request, event func(Event)) (*Result, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	redact, err := newRedactor(&r)
	if err != nil {
		return nil, err
	}
	free, err := e.reserve(ctx, release{r.Cluster.Host, r.Namespace, r.Name})
	if err != nil {
		return nil, err
	}
	defer free()
	program := e.options.Program
	if program == nil {
		file, err := os.Executable()
		if err != nil {
			return nil, &Error{Reason: ReasonInterrupted, Message: "Helm operation: find this program's file: " + err.Error()}
		}
		program = []string{file, Subcommand}
	}
	p := &process{program: program, renderTimeout: e.options.RenderTimeout, timeout: e.options.Timeout, redact: redact, event: event}
	return p.run(ctx, Job{Request: r, Timeout: e.options.Timeout, HistoryMax: e.options.HistoryMax})
}

// reserve waits until no other operation of the release runs, and one of the slots is free.
func (e *Executor) reserve(ctx context.Context, of release) (free func(), err error) {
	mine := make(chan struct{})
	for {
		e.mu.Lock()
		other, taken := e.busy[of]
		if !taken {
			e.busy[of] = mine
		}
		e.mu.Unlock()
		if !taken {
			break
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	leave := func() {
		e.mu.Lock()
		delete(e.busy, of)
		e.mu.Unlock()
		close(mine)
	}
	select {
	case e.slots <- struct{}{}:
		return func() { <-e.slots; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
