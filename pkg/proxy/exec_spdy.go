package proxy

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"

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
	executor, err := clientremotecommand.NewSPDYExecutorRejectRedirects(transport, upgrader, http.MethodPost, out.URL)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	started := sync.OnceFunc(func() {
		if s.Started != nil {
			s.Started()
		}
	})
	options := clientremotecommand.StreamOptions{Stdin: s.Stdin, Stdout: s.Stdout, Tty: s.TTY}
	if !s.TTY {
		options.Stderr = s.Stderr
	} else {
		options.TerminalSizeQueue = &sizeQueue{ctx, s.Sizes, started}
	}
	if s.Stdin != nil {
		options.Stdin = &startedReader{s.Stdin, started}
	}
	ended := make(chan error, 1)
	go func() { ended <- executor.StreamWithContext(ctx, options) }() // the handshake does not end with ctx
	select {
	case err := <-ended:
		if err != nil && sent.refusal != nil {
			return sent.refusal
		}
		return spdyFailure(err)
	case <-ctx.Done():
		return ctx.Err()
	}
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
