package child

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"
	helmkube "helm.sh/helm/v4/pkg/kube"

	"kapis.dev/ks-apiserver/pkg/helm"
)

// maxInput bounds the job: a chart and values in base64, and certificates.
const maxInput = 2*helm.MaxArchive + 6*helm.MaxValues

// dataLimit is where the kernel refuses memory to this process. The parent kills it at half of that, unless it allocates faster than
// the parent looks.
const dataLimit = 1 << 30

// Main does the job that it reads, and writes lines. The error is that of the lines: how the job ended is in the last one.
func Main(ctx context.Context, in io.Reader, out *os.File) error {
	restrict()
	// What the SDK prints must not become a part of the lines.
	os.Stdout = os.Stderr
	l := &lines{out: out}
	result, err := run(ctx, in, l)
	last := helm.Line{Done: true, Result: result}
	if err != nil {
		last.Error = explain(err)
	} else if result == nil {
		last.Result = &helm.Result{}
	}
	return l.write(last)
}

// restrict bounds what this process can take, whatever a chart does.
func restrict() {
	debug.SetMaxStack(64 << 20)
	if helm.MemoryScale == 1 { // the race detector has reserved more than that
		_ = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: dataLimit, Max: dataLimit})
	}
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	// Where the machine has no memory left, the kernel ends this process before its parent.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	// The name that Helm's CLI has: with server-side apply a release has one manager of its fields, no matter which program upgrades it.
	helmkube.ManagedFieldsManager = "helm"
}

func run(ctx context.Context, in io.Reader, l *lines) (result *helm.Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &helm.Error{Reason: helm.ReasonFailed, Message: fmt.Sprintf("Helm operation: a panic: %v", r)}
		}
	}()
	var job helm.Job
	if err := json.NewDecoder(bufio.NewReader(io.LimitReader(in, maxInput))).Decode(&job); err != nil {
		return nil, &helm.Error{Reason: helm.ReasonInvalid, Message: "Helm operation: read the job: " + err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, job.Timeout)
	defer cancel()
	o, err := newOperation(job, l)
	if err != nil {
		return nil, err
	}
	return o.run(ctx)
}

// lines writes lines, and is the handler of the SDK's log.
type lines struct {
	mu    sync.Mutex
	out   io.Writer
	count int
	// cause is the last error that the SDK logged: it returns some of them without their reason.
	cause error
	// hidden is what nothing says, and redact what replaces it.
	hidden helm.Hidden
	redact *helm.Redactor
}

// maxMessages bounds the log of an operation.
const maxMessages = 500

// maxText bounds a message before it is cut to what is shown, in bytes.
const maxText = 64 << 10

// hide adds to what nothing says from now on.
func (l *lines) hide(add func(*helm.Hidden)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	add(&l.hidden)
	l.redact = nil
}

func (l *lines) write(line helm.Line) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.redact == nil {
		l.redact = l.hidden.Redactor()
	}
	l.redact.Clean(&line)
	raw, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = l.out.Write(append(raw, '\n'))
	return err
}

func (l *lines) phase(p helm.Phase) { _ = l.write(helm.Line{Event: helm.Event{Phase: p}}) } // without a reader the process is killed

func (l *lines) message(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.mu.Lock()
	l.count++
	over := l.count > maxMessages
	l.mu.Unlock()
	if over {
		return
	}
	// write cuts it when nothing is in it any more that is hidden: a part of that could not be found.
	_ = l.write(helm.Line{Event: helm.Event{Message: text[:min(len(text), maxText)]}})
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }

// Handle passes warnings on. The SDK's log of lower levels has the content of objects.
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		switch e := a.Value.Any().(type) {
		case error:
			l.failed(e)
		case []error:
			if len(e) > 0 {
				l.failed(e[0])
			}
		}
		return true
	})
	if r.Level >= slog.LevelWarn {
		l.message("%s", r.Message)
	}
	return nil
}

func (l *lines) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cause = err
}

func (l *lines) lastCause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}
