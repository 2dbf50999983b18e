package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // client-go's Upgrader has its types
	"k8s.io/client-go/rest"
	clientremotecommand "k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	clientexec "k8s.io/client-go/util/exec"

	"kapis.dev/ks-apiserver/pkg/terminal"
)

// execBySPDY is Exec by SPDY.
func (k *Kube) execBySPDY(r *http.Request, s terminal.Streams) error {
	out := k.execRequest(r)
	cfg := rest.CopyConfig(k.config)
	var sent asCaller
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		sent = asCaller{next: next, header: out.Header}
		return &sent
	})
	transport, upgrader, err := spdy.RoundTripperFor(cfg)
	if err != nil {
		return err
	}
	status := &statusUpgrader{Upgrader: upgrader}
	executor, err := clientremotecommand.NewSPDYExecutorRejectRedirects(transport, status, http.MethodPost, out.URL)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	started := sync.OnceFunc(func() {
		if s.Started != nil {
			s.Started()
		}
	})
	options := clientremotecommand.StreamOptions{Stdin: s.Stdin, Stdout: endingAt(s.Stdout, end), Tty: s.TTY}
	if !s.TTY {
		options.Stderr = endingAt(s.Stderr, end)
	} else {
		options.TerminalSizeQueue = &sizeQueue{ctx, s.Sizes, started}
	}
	if s.Stdin != nil {
		options.Stdin = &startedReader{s.Stdin, started}
	}
	ended := make(chan error, 1)
	go func() { ended <- executor.StreamWithContext(ctx, options) }() // the handshake does not end with ctx
	select {
	case err = <-ended:
		switch {
		case err == nil && !status.received:
			err = errExecLost
		case err != nil && sent.refusal != nil:
			err = sent.refusal
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	if cause := context.Cause(ctx); errors.Is(cause, errOutput) {
		return cause
	}
	return spdyFailure(err)
}

// statusUpgrader notes whether a Status has come, which client-go does not say: for it, a connection that was lost is the end of a command
// that ended well. From v4.channel.k8s.io on there is a Status of each end; kubelets of today have no older protocol alone.
type statusUpgrader struct {
	spdy.Upgrader
	received bool
}

// NewConnection returns the connection of an upgrade, of whose streams that for the Status is observed.
func (u *statusUpgrader) NewConnection(res *http.Response) (httpstream.Connection, error) {
	conn, err := u.Upgrader.NewConnection(res)
	if err != nil {
		return nil, err
	}
	return &statusConn{conn, u}, nil
}

type statusConn struct {
	httpstream.Connection
	of *statusUpgrader
}

// CreateStream creates a stream.
func (c *statusConn) CreateStream(headers http.Header) (httpstream.Stream, error) {
	stream, err := c.Connection.CreateStream(headers)
	if err != nil || headers.Get(corev1.StreamType) != corev1.StreamTypeError {
		return stream, err
	}
	return &statusStream{stream, c.of}, nil
}

type statusStream struct {
	httpstream.Stream
	of *statusUpgrader
}

// Read reads a part of the Status.
func (s *statusStream) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p)
	s.of.received = s.of.received || n > 0
	return n, err
}

// endingWriter ends a command whose output can't be passed on: client-go would take the rest of it, and drop that.
type endingWriter struct {
	io.Writer
	end context.CancelCauseFunc
}

// endingAt returns a writer for a command's output, nil for nil.
func endingAt(to io.Writer, end context.CancelCauseFunc) io.Writer {
	if to == nil {
		return nil
	}
	return &endingWriter{to, end}
}

// Write writes output.
func (w *endingWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		w.end(fmt.Errorf("%w: %w", errOutput, err))
	}
	return n, err
}

// spdyFailure returns the error of Exec for one of client-go's.
func spdyFailure(err error) error {
	var exit clientexec.CodeExitError
	if errors.As(err, &exit) {
		return &terminal.ExitError{Code: exit.Code}
	}
	return err
}

// asCaller adds headers to a request to upgrade, and notes how it is refused, which client-go's error does not say.
type asCaller struct {
	next    http.RoundTripper
	header  http.Header
	refusal error
}

// RoundTrip sends r with the headers.
func (a *asCaller) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.Copy(r.Header, a.header)
	res, err := a.next.RoundTrip(r)
	if err == nil && res.StatusCode != http.StatusSwitchingProtocols {
		a.refusal = answerOf(res, errors.New(res.Status))
		res.Body = http.NoBody
	}
	return res, err
}

// sizeQueue is a TerminalSizeQueue. It is asked first when all streams are there.
type sizeQueue struct {
	ctx     context.Context
	sizes   <-chan terminal.Size
	started func()
}

// Next waits for a size.
func (q *sizeQueue) Next() *clientremotecommand.TerminalSize {
	q.started()
	select {
	case size := <-q.sizes:
		return &clientremotecommand.TerminalSize{Width: size.Width, Height: size.Height}
	case <-q.ctx.Done():
		return nil
	}
}

// startedReader is an input that is read first when all streams are there.
type startedReader struct {
	io.Reader
	started func()
}

// Read reads the input.
func (r *startedReader) Read(p []byte) (int, error) {
	r.started()
	return r.Reader.Read(p)
}
