package child

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"kapis.dev/ks-apiserver/pkg/helm"
)

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

func (l *lines) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *lines) WithGroup(string) slog.Handler { return l }

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
