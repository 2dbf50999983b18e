package fleetlist

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"sync"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/web"
)

// Serve returns what a handler answers to a request, as a client would see it. The body, which has to be closed, is read while the handler
// writes it, and nothing of it is kept. Where the handler breaks off, reading fails.
func Serve(h http.Handler, r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(web.WithoutConnection(r.Context()))
	from, to := io.Pipe()
	w := &pipedAnswer{header: http.Header{}, begun: make(chan struct{}), to: to}
	go func() {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				klog.ErrorS(nil, "panic in a request within a request", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			}
			_ = to.CloseWithError(errBroken)
			w.begin(http.StatusInternalServerError)
		}()
		h.ServeHTTP(w, r.WithContext(ctx))
		w.begin(http.StatusOK)
		_ = to.Close()
	}()
	body := &pipedBody{PipeReader: from, cancel: cancel}
	select {
	case <-w.begun:
		return &http.Response{StatusCode: w.code, Header: w.sent, Body: body, Request: r}, nil
	case <-ctx.Done():
		_ = body.Close()
		return nil, context.Cause(ctx)
	}
}

var errBroken = errors.New("the answer was broken off")

// pipedBody is the body of an answer that a handler writes.
type pipedBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close ends the handler's request, and what it waits for.
func (b *pipedBody) Close() error {
	b.cancel()
	return b.CloseWithError(errBroken)
}

// pipedAnswer is the http.ResponseWriter of a handler whose answer is read here.
type pipedAnswer struct {
	header http.Header
	once   sync.Once
	begun  chan struct{}
	// code and sent are those of the answer that has begun.
	code int
	sent http.Header
	to   *io.PipeWriter
}

var _ http.ResponseWriter = (*pipedAnswer)(nil)

// Header implements http.ResponseWriter.
func (a *pipedAnswer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *pipedAnswer) WriteHeader(code int) {
	if code >= http.StatusOK {
		a.begin(code)
	}
}

// Write implements http.ResponseWriter.
func (a *pipedAnswer) Write(p []byte) (int, error) {
	a.begin(http.StatusOK)
	return a.to.Write(p) //nolint:wrapcheck // as a connection fails
}

// Flush implements http.Flusher: what is written is read at once.
func (a *pipedAnswer) Flush() { a.begin(http.StatusOK) }

func (a *pipedAnswer) begin(code int) {
	a.once.Do(func() {
		a.code, a.sent = code, a.header.Clone()
		close(a.begun)
	})
}
