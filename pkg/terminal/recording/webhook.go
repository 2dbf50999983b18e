package recording

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"kapis.dev/ks-apiserver/pkg/webhook"
)

const (
	// sessionHeader has the id of the recording that a request is about.
	sessionHeader = "X-Kapis-Session"
	typeCast      = "application/x-asciicast"
	typeMeta      = "application/json"
	// metaTimeout bounds a request with a sidecar, and metaAttempts is how often the last one is sent.
	metaTimeout = openTimeout - time.Second
	// continueTimeout is how long a webhook may take to begin to read a stream.
	continueTimeout = 2 * time.Second
	metaAttempts    = 3
	maxReply        = 4 << 10
	maxHeader       = 64 << 10
)

// isID reports whether a name is a recording's.
func isID(name string) bool {
	return len(name) == 36 && uuid.Validate(name) == nil
}

// Webhook is the sink that posts recordings: the sidecar when a session begins, a stream with the cast, and the whole sidecar at the end.
type Webhook struct {
	webhook.Endpoint
	client *http.Client
}

// NewWebhook reads the files of an endpoint. It sends no request.
func NewWebhook(e webhook.Endpoint) (*Webhook, error) {
	u, err := url.Parse(e.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("terminal.recording.webhook.url must be an https URL without a user; a token belongs into tokenFile")
	}
	w := &Webhook{Endpoint: e}
	t, err := w.TLS()
	if err != nil {
		return nil, fmt.Errorf("prepare the webhook of recordings (terminal.recording.webhook): %w", err)
	}
	// A webhook whose machine is gone must be noticed within seconds.
	dialer := &net.Dialer{Timeout: metaTimeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: time.Second, Interval: time.Second, Count: 3},
		Control: func(_, _ string, c syscall.RawConn) error { setUserTimeout(c, int(stall/time.Millisecond)); return nil }}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: t, DialContext: watched(dialer), MaxResponseHeaderBytes: maxHeader,
		MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: metaTimeout, ExpectContinueTimeout: 2 * continueTimeout,
		Protocols: new(http.Protocols),
	}
	transport.Protocols.SetHTTP1(true) // each stream has a connection of its own: none waits for another
	w.client = &http.Client{CheckRedirect: webhook.NoRedirect, Transport: transport}
	return w, nil
}

// Run implements Sink.
func (w *Webhook) Run(ctx context.Context) {
	<-ctx.Done()
	w.client.CloseIdleConnections()
}

// Open implements Sink.
func (w *Webhook) Open(ctx context.Context, id string, meta []byte) (Store, error) {
	if err := w.post(ctx, id, meta); err != nil {
		return nil, err
	}
	body, pipe := io.Pipe()
	s := &webhookStore{webhook: w, id: id, pipe: pipe, lost: make(chan error, 1), answered: make(chan struct{})}
	// The webhook says that it takes the stream before there is anything to send (RFC 9110, 10.1.1).
	taken := make(chan struct{})
	trace := &httptrace.ClientTrace{
		Got100Continue: sync.OnceFunc(func() { close(taken) }),
		GotConn: func(info httptrace.GotConnInfo) {
			if c := watchedOf(info.Conn); c != nil {
				go s.endWith(c, body)
			}
		},
	}
	r, err := w.request(httptrace.WithClientTrace(ctx, trace), id, typeCast, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Expect", "100-continue")
	go func() {
		switch s.err = w.do(r); {
		case s.err == nil:
			s.err = errEarly // unless Finish has ended the stream
		case errors.Is(s.err, io.ErrClosedPipe):
			s.err = errClosed // by net/http, for its connection has ended
		}
		_ = body.CloseWithError(s.err)
		s.lost <- s.err
		close(s.answered)
	}()
	late := time.NewTimer(continueTimeout)
	defer late.Stop()
	select {
	case <-taken:
		return s, nil
	case <-s.answered:
		err = s.err
	case <-late.C:
		err = errors.New("the webhook of recordings does not begin to read a stream (100 Continue)")
	}
	_ = pipe.CloseWithError(err)
	return nil, err
}

var errEarly = errors.New("the webhook of recordings has answered before the end of a stream")

func (w *Webhook) request(ctx context.Context, id, mediaType string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, body)
	if err != nil {
		return nil, errors.New("terminal.recording.webhook.url is no URL")
	}
	r.Header.Set("Content-Type", mediaType)
	r.Header.Set(sessionHeader, id)
	return r, w.Authorize(r)
}

// post sends a sidecar.
func (w *Webhook) post(ctx context.Context, id string, meta []byte) error {
	ctx, cancel := context.WithTimeout(ctx, metaTimeout)
	defer cancel()
	r, err := w.request(ctx, id, typeMeta, bytes.NewReader(meta))
	if err != nil {
		return err
	}
	return w.do(r)
}

// do sends a request. Errors don't have the URL, whose query may be secret.
func (w *Webhook) do(r *http.Request) error {
	answer, err := w.client.Do(r)
	if err != nil {
		return fmt.Errorf("send a recording to the webhook: %w", webhook.WithoutURL(err))
	}
	_, _ = io.CopyN(io.Discard, answer.Body, maxReply) // so that the connection is used again
	_ = answer.Body.Close()
	if c := answer.StatusCode; c < 200 || c > 299 {
		return fmt.Errorf("the webhook of recordings answers %d", c)
	}
	return nil
}

// webhookStore is a recording that is sent to a webhook.
type webhookStore struct {
	webhook  *Webhook
	id       string
	pipe     *io.PipeWriter
	lost     chan error
	answered chan struct{} // closed when the stream's request is over
	err      error         // then: how; errEarly is well once the stream has ended
}

// Write implements Store.
func (s *webhookStore) Write(p []byte) error {
	_, err := s.pipe.Write(p)
	return err
}

// Check implements Store.
func (s *webhookStore) Check() error {
	select {
	case <-s.answered:
		return s.err
	default:
		return nil
	}
}

// Lost implements Store.
func (s *webhookStore) Lost() <-chan error { return s.lost }

// Finish implements Store.
func (s *webhookStore) Finish(ctx context.Context, meta []byte) error {
	if meta == nil {
		_ = s.pipe.Close()
		select {
		case <-s.answered:
		case <-ctx.Done():
		}
		return nil
	}
	early := s.Check()
	_ = s.pipe.Close()
	var err error
	select {
	case <-s.answered:
		if err = s.err; errors.Is(err, errEarly) {
			err = early
		}
	case <-ctx.Done():
		err = errors.New("the webhook of recordings does not answer at the end of a stream")
	}
	for attempt := 1; ; attempt++ {
		last := s.webhook.post(ctx, s.id, meta)
		if last == nil || attempt == metaAttempts || ctx.Err() != nil {
			return errors.Join(err, last)
		}
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
		}
	}
}
