package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/clusterdns"
	"kapis.dev/ks-apiserver/pkg/webhook"
)

const (
	backendWebhook = "webhook"
	// The bounds of one request to a webhook.
	maxBatchEvents = 400
	maxBatchBytes  = 8 << 20
	sendTimeout    = 10 * time.Second
	// maxHeader and maxReply bound what is read of an answer.
	maxHeader = 64 << 10
	maxReply  = 4 << 10
	// The time between attempts to send the same batch.
	minRetry = time.Second
	maxRetry = 30 * time.Second
)

// Shape is how events are written for a webhook.
type Shape string

// The shapes: EventList of audit.k8s.io/v1; KubeSphere 4's events, one after the other; KubeSphere 3's, in {"Items":[...]}.
const (
	ShapeKubernetes  Shape = "audit.k8s.io/v1"
	ShapeKubeSphere4 Shape = "kubesphere/4"
	ShapeKubeSphere3 Shape = "kubesphere/3"
)

// frame is what a body has before, between and after its events.
type frame struct{ head, separator, tail string }

var frames = map[Shape]frame{
	ShapeKubernetes:  {`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`, ",", "]}"},
	ShapeKubeSphere4: {},
	ShapeKubeSphere3: {`{"Items":[`, ",", "]}"},
}

// WebhookOptions are those of a Webhook.
type WebhookOptions struct {
	URL   string
	Shape Shape
	// CAFile has the authorities that may sign the webhook's certificate; "" for those of the system.
	CAFile string
	// CertFile and KeyFile are the client's certificate, and TokenFile has a bearer token; "" for none. They are read again when they
	// are used.
	CertFile, KeyFile, TokenFile string
	// SkipVerify accepts any certificate.
	SkipVerify bool
	// Batch is the number of events that are sent without waiting for more, and Interval how long fewer wait.
	Batch    int
	Interval time.Duration
	// Senders is how many requests are sent at once.
	Senders int
	// Awaited says that requests wait for their events: each is sent at once, whatever Batch and Interval are.
	Awaited bool
	Metrics *Metrics
	Now     func() time.Time
}

// Webhook is the backend that posts events to a URL. A batch is sent until it arrives, unless it is refused; until then what comes waits
// in a bounded queue, and what does not fit there is dropped, counted, and told by an event of the verb dropped.
type Webhook struct {
	*backend
	WebhookOptions
	frame  frame
	client *http.Client

	minRetry, maxRetry, stopTimeout time.Duration // shorter in tests
}

// NewWebhook reads the certificates. It sends no request: the webhook may start later.
func NewWebhook(o WebhookOptions) (*Webhook, error) {
	framed, ok := frames[o.Shape]
	if !ok {
		return nil, fmt.Errorf("the shape %q of audit events is unknown", o.Shape)
	}
	encode := Encode(AppendJSON)
	switch o.Shape {
	case ShapeKubernetes:
	case ShapeKubeSphere4:
		encode = kubesphere4(thisHost())
	case ShapeKubeSphere3:
		encode = kubesphere3
	}
	if o.Batch = min(o.Batch, maxBatchEvents); o.Awaited {
		o.Batch = 1
	}
	client, err := o.open()
	if err != nil {
		return nil, fmt.Errorf("prepare the audit webhook (auditing.webhookOptions): %w", err)
	}
	return &Webhook{
		backend: newBackend(backendWebhook, encode, o.Batch, o.Metrics, o.Now), WebhookOptions: o, frame: framed, client: client,
		minRetry: minRetry, maxRetry: maxRetry, stopTimeout: stopTimeout,
	}, nil
}

// open returns the client, which follows no redirect: events and the token are for the webhook alone.
func (o *WebhookOptions) open() (*http.Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return nil, errors.New("webhookUrl must be a URL of https or http without a user; a token belongs into tokenFile")
	}
	switch {
	case u.Scheme == "http" && (o.TokenFile != "" || o.CertFile != "" || o.CAFile != ""):
		return nil, errors.New("caFile, certFile and tokenFile need a webhookUrl of https")
	case u.Scheme == "http":
		klog.InfoS("WARNING: audit events are sent over http: anyone on the path can read, change and drop them")
	case o.SkipVerify:
		klog.InfoS("WARNING: the certificate of the audit webhook is not verified (insecureSkipVerify): anyone on the path can read," +
			" change and drop events")
	}
	t, err := o.endpoint().TLS()
	if err != nil {
		return nil, err
	}
	only := new(http.Protocols)
	only.SetHTTP1(true) // a request that times out ends its connection: by HTTP/2 the next one would wait on the same
	return &http.Client{
		Timeout:       sendTimeout,
		CheckRedirect: webhook.NoRedirect,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: clusterdns.Dial((&net.Dialer{Timeout: sendTimeout}).DialContext).Absolute(),
			TLSClientConfig: t, Protocols: only, MaxResponseHeaderBytes: maxHeader,
			MaxConnsPerHost: o.Senders, MaxIdleConnsPerHost: o.Senders, IdleConnTimeout: time.Minute,
		},
	}, nil
}

func (o *WebhookOptions) endpoint() *webhook.Endpoint {
	return &webhook.Endpoint{
		URL: o.URL, CAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile, TokenFile: o.TokenFile, SkipVerify: o.SkipVerify,
	}
}

// Run sends what is queued, until ctx ends; then it sends the rest, for up to 10 s.
func (w *Webhook) Run(ctx context.Context) {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-time.After(w.stopTimeout):
			cancel()
		case <-last.Done():
		}
	})()
	defer w.client.CloseIdleConnections()
	var due <-chan time.Time
	for {
		select {
		case <-w.queue.wake:
			if w.queue.waiting() < w.Batch {
				if due == nil {
					due = time.After(w.Interval)
				}
				continue
			}
		case <-due:
		case <-ctx.Done():
			w.queue.close()
			w.flush(ctx, last)
			return
		}
		due = nil
		w.flush(ctx, last)
	}
}

// flush sends what is queued, until last ends. Once ctx has ended, attempts follow each other faster.
func (w *Webhook) flush(ctx, last context.Context) {
	lines, events := w.take()
	if events == 0 {
		return
	}
	var senders sync.WaitGroup
	var refused atomic.Bool
	free := make(chan struct{}, w.Senders)
	for rest := lines; len(rest) > 0; {
		n, size := batch(rest)
		part := rest[:size]
		rest = rest[size:]
		free <- struct{}{}
		senders.Go(func() {
			defer func() { <-free }()
			if reason := w.deliver(ctx, last, part); reason != "" {
				refused.Store(true)
				w.lost(reason, n)
				return
			}
			w.metrics.written.WithLabelValues(backendWebhook).Add(float64(n))
		})
	}
	senders.Wait()
	w.queue.done(lines, refused.Load())
}

// batch returns how many events at the beginning of lines are sent together, and the length of their lines.
func batch(lines []byte) (events, size int) {
	for events < maxBatchEvents && size < len(lines) {
		n := bytes.IndexByte(lines[size:], '\n') + 1
		if events > 0 && size+n > maxBatchBytes {
			break
		}
		events, size = events+1, size+n
	}
	return events, size
}

// deliver sends a batch until it arrives, and returns "" then; otherwise why it is lost.
func (w *Webhook) deliver(ctx, last context.Context, lines []byte) (reason string) {
	body, key := w.frame.body(lines), uuid.NewString()
	for pause := w.minRetry; ; pause = min(2*pause, w.maxRetry) {
		final, err := w.post(last, body, key)
		if err == nil {
			w.fault.Store(nil)
			return ""
		}
		if w.fault.Swap(&err) == nil {
			klog.ErrorS(err, "Audit events can't be sent to the webhook")
		}
		if final {
			return dropRefused
		}
		stopping := ctx.Done()
		if ctx.Err() != nil {
			pause, stopping = w.minRetry, nil
		}
		select {
		case <-last.Done():
			return dropStop
		case <-stopping:
		case <-time.After(pause):
		}
	}
}

func (f frame) body(lines []byte) []byte {
	body := append(make([]byte, 0, len(f.head)+len(lines)+len(f.tail)), f.head...)
	for line := range bytes.Lines(lines) {
		if len(body) > len(f.head) {
			body = append(body, f.separator...)
		}
		body = append(body, bytes.TrimSuffix(line, []byte{'\n'})...)
	}
	return append(body, f.tail...)
}

// post sends a batch once. final reports that another attempt would be refused, too. Errors don't have the URL, whose query may be secret.
func (w *Webhook) post(ctx context.Context, body []byte, key string) (final bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return true, errors.New("webhookUrl is no URL")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	if err := w.endpoint().Authorize(r); err != nil {
		return false, err
	}
	answer, err := w.client.Do(r)
	if err != nil {
		return false, webhook.WithoutURL(err)
	}
	_, _ = io.CopyN(io.Discard, answer.Body, maxReply) // so that the connection is used again
	_ = answer.Body.Close()
	switch c := answer.StatusCode; {
	case c >= 200 && c < 300:
		return false, nil
	case c == http.StatusRequestTimeout, c == http.StatusTooManyRequests, c >= 500:
		return false, fmt.Errorf("the webhook answers %d; the events are sent again", c)
	default:
		return true, fmt.Errorf("the webhook answers %d, and the events are lost", c)
	}
}
