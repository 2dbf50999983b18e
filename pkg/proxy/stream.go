package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

const (
	// checkTimeout bounds one check, so that a check that hangs ends the request too.
	checkTimeout = 2 * time.Second
	// defaultFarewell is how long a client may take to receive the end of its stream, and how long
	// one side of an upgraded connection may stay open after the other has gone.
	defaultFarewell = 3 * time.Second
)

// watcher ends requests that go on for long: when their caller may no longer make them, and when
// this server stops.
type watcher struct {
	recheck  func(context.Context, *http.Request) error
	every    time.Duration
	drain    context.Context
	farewell time.Duration
}

// stream is one such request, from its beginning to the return of its handler.
type stream struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	rc     *http.ResponseController
	// farewell is how long the end may take.
	farewell time.Duration

	mu       sync.Mutex
	timer    *time.Timer // of the next check
	parting  *time.Timer // closes conn, after one side has gone
	undrain  func() bool
	conn     net.Conn // the client's, once the connection is upgraded
	deadline bool     // for writes to the client was set
	stopped  bool
}

type streamKey struct{}

func streamFrom(ctx context.Context) *stream {
	s, _ := ctx.Value(streamKey{}).(*stream)
	return s
}

// endedError is the cause of a stream that this server ended, and what a client is told that has
// got no answer yet.
type endedError struct{ err error }

func (e *endedError) Error() string { return e.err.Error() }
func (e *endedError) Unwrap() error { return e.err }

// ended returns why this server ended the request of ctx, and nil if it did not.
func ended(ctx context.Context) error {
	var e *endedError
	if errors.As(context.Cause(ctx), &e) {
		return e
	}
	return nil
}

// over begins to watch over r. The request that it returns is the one to pass on; stop is to be
// called when that is done.
func (x *watcher) over(w http.ResponseWriter, r *http.Request) (*stream, *http.Request) {
	s := &stream{rc: http.NewResponseController(w), farewell: x.farewell}
	ctx, cancel := context.WithCancelCause(r.Context())
	s.ctx, s.cancel = context.WithValue(ctx, streamKey{}, s), cancel
	r = r.WithContext(s.ctx)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.undrain = context.AfterFunc(x.drain, func() {
		e := apierrors.NewServiceUnavailable("this server is stopping: try again")
		e.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
		s.end(e)
	})
	if x.recheck != nil {
		// A timer, not a goroutine: between two checks, a stream costs no stack.
		s.timer = time.AfterFunc(x.every, func() { x.check(s, r) })
	}
	return s, r
}

func (x *watcher) check(s *stream, r *http.Request) {
	ctx, cancel := context.WithTimeout(s.ctx, checkTimeout)
	err := x.recheck(ctx, r)
	cancel()
	if s.ctx.Err() != nil {
		return
	}
	if err != nil {
		klog.V(2).InfoS("ending a request that is no longer allowed", "method", r.Method, "path", r.URL.Path, "reason", err)
		s.end(apierrors.NewUnauthorized("the credentials or the right of this request have ended"))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.timer.Reset(x.every)
	}
}

// end ends the stream: towards kube-apiserver at once; towards the client with a clean end of the
// answer, for which it has a little time, or by closing the upgraded connection.
func (s *stream) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.cancel(&endedError{why})
	if s.conn != nil {
		_ = s.conn.Close()
		return
	}
	// A client that reads nothing must not hold the stream by that.
	s.deadline = s.rc.SetWriteDeadline(time.Now().Add(s.farewell)) == nil
}

// stop lets go of everything that the stream holds. Nothing of it touches the client's connection
// afterwards, which may serve the next request by then.
func (s *stream) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.undrain()
	for _, t := range []*time.Timer{s.timer, s.parting} {
		if t != nil {
			t.Stop()
		}
	}
	if s.deadline && s.conn == nil {
		_ = s.rc.SetWriteDeadline(time.Time{})
	}
	s.cancel(context.Canceled)
}

// watchBody makes the end of a stream, when it is this server that ends it, an ordinary end of the
// answer: a watch is then over as if its time was up, and clients begin the next.
func watchBody(res *http.Response) {
	if s := streamFrom(res.Request.Context()); s != nil {
		res.Body = &streamBody{ReadCloser: res.Body, ctx: s.ctx}
	}
}

type streamBody struct {
	io.ReadCloser
	ctx context.Context
}

func (b *streamBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && ended(b.ctx) != nil {
		err = io.EOF
	}
	return n, err
}
