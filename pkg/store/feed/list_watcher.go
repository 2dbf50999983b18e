package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"kapis.dev/ks-apiserver/pkg/informer"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store/index"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// The pauses between attempts to reach kube-apiserver: doubled from the first to the last.
const (
	FirstPause = 200 * time.Millisecond
	LastPause  = 15 * time.Second
)

// ErrSilent ends a request or a watch on which nothing arrives.
var ErrSilent = errors.New("kube-apiserver does not answer")

// maxObject bounds one object of a stream (etcd's default limit is 1.5 MiB).
const maxObject = 32 << 20

// NewClient returns a client for raw bytes. Its connections are its own, and use HTTP/1.1 without compression: each carries
// one watch, so HTTP/2 gains nothing, and decompression was a fifth of what a first list cost.
func NewClient(config *rest.Config) (*rest.RESTClient, error) {
	c := rest.CopyConfig(config)
	c.QPS = -1    // reflectors back off by themselves, and must not wait for one another
	c.Timeout = 0 // a watch is open for minutes
	c.NextProtos = []string{"http/1.1"}
	c.DisableCompression = true
	c.Dial = dialer(c.Dial)
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c.WarningHandlerWithContext = rest.NoWarnings{}
	client, err := rest.UnversionedRESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", config.Host, err)
	}
	return client, nil
}

// ListWatcher lists and watches one kind: a cache.ListerWatcherWithContext that passes on the objects' bytes.
type ListWatcher struct {
	Client    *rest.RESTClient
	Gvr       schema.GroupVersionResource
	Namespace string // empty for all
	Clock     clock.WithTicker
	// Decoder returns a decoder for one stream: the end of one may overlap the start of the next.
	Decoder func() *index.Decoder
	// NoWatchList makes the reflector begin with a list, for servers that don't end a stream of
	// initial events.
	NoWatchList bool
	// MaxOutage is how long a watch may be away and go on from its version; after a longer time everything is read again.
	MaxOutage time.Duration
	// Known reports whether there is a state that a list must not be older than.
	Known func() bool
	// Restarted is called before all objects are sent again.
	Restarted func()
	// Meter counts what arrived, also for the watchdog.
	Meter *Meter
	// Failed is called with every error of a request or a stream, and Opened when a watch continues from a version.
	Failed func(error)
	Opened func()

	// last is when a watch was opened last, brief how many in a row ended at once. One watch is opened at a time.
	last   time.Time
	brief  int
	outage informer.Outage

	mu     sync.Mutex
	cancel context.CancelCauseFunc // ends the request that is under way, nil while none is
	opens  bool                    // it was not answered yet
}

// IsWatchListSemanticsUnSupported reports whether the reflector has to begin with a list.
func (s *ListWatcher) IsWatchListSemanticsUnSupported() bool { return s.NoWatchList }

// List is ListWithContext without a context.
func (s *ListWatcher) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

// Watch is WatchWithContext without a context.
func (s *ListWatcher) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

// ListWithContext reads one page of a list. A reflector's first list may be of any age, so that kube-apiserver answers from
// memory, and here every attempt has a reflector of its own. A kube-apiserver that lags behind another would bring back
// deleted bindings and sessions: where a state is known, a consistent read is asked for. The versions of the two states are
// not compared, since the lower one is right after a backup of etcd was restored.
func (s *ListWatcher) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.ResourceVersion == "0" && s.Known() {
		o.ResourceVersion = ""
	}
	if o.Continue == "" {
		s.outage.Reset()
		s.Restarted()
	}
	body, err := s.open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	l, err := s.Decoder().List(rawjson.NewReader(body, maxObject))
	if err != nil {
		err = fmt.Errorf("read the list of %s: %w", s.Gvr.Resource, err)
		if ctx.Err() == nil {
			s.Failed(err)
		}
		return nil, err
	}
	s.Meter.listed.Add(uint64(len(l.Items)))
	return l, nil
}

// lasts is how long a healthy watch is open at least.
const lasts = time.Second

// WatchWithContext opens a watch. One that continues from a known version is retried until kube-apiserver answers: that
// costs less than another list, and where too much was missed, the answer says so. After a long outage no answer says what
// was missed (informer.Outage), and the error is 410.
func (s *ListWatcher) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	if o.SendInitialEvents != nil {
		s.outage.Reset()
		s.Restarted()
		w, err := s.watch(ctx, o)
		if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			// A reflector would repeat some of these in a loop of its own, which no context ends;
			// with the cause out of sight it goes on to a list, and fails there.
			return nil, fmt.Errorf("open a watch: %v", err) //nolint:errorlint // see above
		}
		return w, err
	}
	if s.brief++; s.Clock.Since(s.last) >= lasts {
		s.brief = 0
	}
	for {
		if s.brief > 0 {
			pause := min(FirstPause<<min(s.brief-1, 10), LastPause)
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-s.Clock.After(wait.Jitter(pause, 0.5)):
			}
		}
		s.outage.Begin(s.Clock.Now())
		w, err := s.watch(ctx, o)
		if err == nil || ctx.Err() != nil || !passes(err) {
			return w, err
		}
		s.brief++
	}
}

// watch opens one watch.
func (s *ListWatcher) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	var c *batchingConn
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { c = batchingConnOf(i.Conn) }}
	body, err := s.open(httptrace.WithClientTrace(ctx, trace), o)
	if err != nil {
		return nil, err
	}
	s.last = s.Clock.Now()
	if o.SendInitialEvents == nil {
		// The stream is not read yet: what fails in it fails after Opened.
		if err := s.outage.End(s.last, s.MaxOutage); err != nil {
			_ = body.Close()
			s.Failed(err)
			return nil, err
		}
		s.Opened()
	}
	w := &watchStream{
		body: body, decoder: s.Decoder(), meter: s.Meter, failed: s.Failed,
		initial: o.SendInitialEvents != nil, listing: o.SendInitialEvents != nil, version: o.ResourceVersion,
		events: make(chan watch.Event, maxHeld), stop: make(chan struct{}),
	}
	if c != nil {
		w.conn = c
		c.stream.Store(w)
	}
	go w.read(rawjson.NewReader(body, maxObject))
	return w, nil
}

// passes reports whether an error is temporary: of the network, or of a server that starts or is busy.
func passes(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	switch status.Status().Code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
		return true
	case http.StatusGatewayTimeout: // also for a version that is not there yet, and may never be
		return !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
	}
	return false
}

// open sends a request, and returns the body of its answer.
func (s *ListWatcher) open(attempt context.Context, o metav1.ListOptions) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(attempt)
	s.begun(cancel, true)
	in, err := s.Client.Get().AbsPath(path(s.Gvr, s.Namespace)).
		SpecificallyVersionedParams(&o, metav1.ParameterCodec, metav1.SchemeGroupVersion).
		MaxRetries(0).Stream(ctx)
	s.begun(cancel, false)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, ErrSilent) {
			err = cause
		}
		cancel(nil)
		if attempt.Err() == nil { // the list of an attempt that was given up may fail after that of the next has succeeded
			s.Failed(err)
		}
		return nil, err
	}
	s.Meter.Bytes.Add(1) // an answer, be it empty
	if o.Watch {
		s.Meter.Opened.Add(1)
	}
	return &body{in, s.Meter, cancel}, nil
}

// begun records the request that is running.
func (s *ListWatcher) begun(cancel context.CancelCauseFunc, opens bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel, s.opens = cancel, opens
}

// Opening reports whether a request waits for its answer.
func (s *ListWatcher) Opening() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opens
}

// Abort ends the running request, its answer included.
func (s *ListWatcher) Abort(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel(cause)
	}
}

func path(gvr schema.GroupVersionResource, namespace string) string {
	in := gvr.Version + "/"
	if namespace != "" {
		in += "namespaces/" + namespace + "/"
	}
	if gvr.Group == "" {
		return "/api/" + in + gvr.Resource
	}
	return "/apis/" + gvr.Group + "/" + in + gvr.Resource
}

// body is an answer whose bytes are counted.
type body struct {
	io.ReadCloser
	meter  *Meter
	cancel context.CancelCauseFunc
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.meter.Bytes.Add(int64(n))
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.cancel(nil)
	return b.ReadCloser.Close()
}
