package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"kapis.dev/ks-apiserver/pkg/rawjson"

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

// maxObject bounds one object of a stream (etcd's default limit is 1.5 MiB).
const maxObject = 32 << 20

// newClient returns a client that is asked for bytes only. Its connections are its own, and speak
// HTTP/1.1 without compression: each carries one watch, so that nothing is gained by HTTP/2's frames, and to
// unpack was a fifth of what a first list cost.
func newClient(config *rest.Config) (*rest.RESTClient, error) {
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

// listWatcher lists and watches one kind: a cache.ListerWatcherWithContext that keeps the
// objects' bytes.
type listWatcher struct {
	client    *rest.RESTClient
	gvr       schema.GroupVersionResource
	namespace string // empty for all
	clock     clock.WithTicker
	// decoder makes a decoder for one stream: the end of one may overlap the begin of the next.
	decoder func() *decoder
	// noWatchList tells the reflector to begin with a list, for servers that don't end a stream of
	// initial events.
	noWatchList bool
	// known tells whether there is a state that a list must not go back behind.
	known func() bool
	// anew is told that all objects begin to come.
	anew func()
	// meter counts what arrived, also so that a watchdog sees whether anything does.
	meter *meter
	// failed is told every error of a request or a stream, opened that a watch is open.
	failed func(error)
	opened func()

	// last is when a watch was opened last, brief how many in a row did not last. One watch is opened
	// at a time.
	last  time.Time
	brief int

	mu     sync.Mutex
	cancel context.CancelCauseFunc // ends the request that is under way, nil while none is
	opens  bool                    // it was not answered yet
}

// IsWatchListSemanticsUnSupported is how a reflector asks whether it has to begin with a list.
func (s *listWatcher) IsWatchListSemanticsUnSupported() bool { return s.noWatchList }

// List is ListWithContext without a context.
func (s *listWatcher) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

// Watch is WatchWithContext without a context.
func (s *listWatcher) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

// ListWithContext reads one page of a list. A reflector's first list may be of any age, so that a kube-apiserver answers
// from memory, and here every attempt has a reflector of its own. One that lags behind another would bring back bindings and
// sessions that are deleted: where something is known, a consistent read is asked for. The versions of the two states
// are not compared, since behind a restored backup of etcd the lower one is right.
func (s *listWatcher) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.ResourceVersion == "0" && s.known() {
		o.ResourceVersion = ""
	}
	if o.Continue == "" {
		s.anew()
	}
	body, err := s.open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	l, err := s.decoder().list(rawjson.NewReader(body, maxObject))
	if err != nil {
		err = fmt.Errorf("read the list of %s: %w", s.gvr.Resource, err)
		s.failed(err)
		return nil, err
	}
	s.meter.listed.Add(uint64(len(l.Items)))
	return l, nil
}

// lasts is how long a watch is open at least, if all is well.
const lasts = time.Second

// WatchWithContext opens a watch. One that goes on behind what is known is tried until kube-apiserver
// answers: that costs less than to list anew, and where too much was missed, the answer says so.
func (s *listWatcher) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	if o.SendInitialEvents != nil {
		s.anew()
		w, err := s.watch(ctx, o)
		if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			// A reflector would repeat some of these in a loop of its own, which no context ends;
			// with the cause out of sight it goes on to a list, and fails there.
			return nil, fmt.Errorf("open a watch: %v", err) //nolint:errorlint // see above
		}
		return w, err
	}
	if s.brief++; s.clock.Since(s.last) >= lasts {
		s.brief = 0
	}
	for {
		if s.brief > 0 {
			pause := min(firstPause<<min(s.brief-1, 10), lastPause)
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-s.clock.After(wait.Jitter(pause, 0.5)):
			}
		}
		w, err := s.watch(ctx, o)
		if err == nil || ctx.Err() != nil || !passes(err) {
			return w, err
		}
		s.brief++
	}
}

// watch opens one watch.
func (s *listWatcher) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	var c *batchingConn
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { c = batchingConnOf(i.Conn) }}
	body, err := s.open(httptrace.WithClientTrace(ctx, trace), o)
	if err != nil {
		return nil, err
	}
	s.last = s.clock.Now()
	s.opened()
	w := &watchStream{
		body: body, decoder: s.decoder(), meter: s.meter, failed: s.failed,
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

// passes tells whether an error is one of the way to kube-apiserver, or of one that starts or is busy.
func passes(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	switch status.Status().Code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
		return true
	case http.StatusGatewayTimeout: // of a version that is not there yet as well, and may never be
		return !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
	}
	return false
}

// open sends a request, and returns the body of its answer.
func (s *listWatcher) open(ctx context.Context, o metav1.ListOptions) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.begun(cancel, true)
	in, err := s.client.Get().AbsPath(path(s.gvr, s.namespace)).
		SpecificallyVersionedParams(&o, metav1.ParameterCodec, metav1.SchemeGroupVersion).
		MaxRetries(0).Stream(ctx)
	s.begun(cancel, false)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
			err = cause
		}
		cancel(nil)
		s.failed(err)
		return nil, err
	}
	s.meter.bytes.Add(1) // an answer, be it empty
	if o.Watch {
		s.meter.opened.Add(1)
	}
	return &body{in, s.meter, cancel}, nil
}

// begun notes the request that is under way.
func (s *listWatcher) begun(cancel context.CancelCauseFunc, opens bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel, s.opens = cancel, opens
}

// opening tells whether a request waits for its answer.
func (s *listWatcher) opening() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opens
}

// abort ends the request that is under way, its answer included.
func (s *listWatcher) abort(cause error) {
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
	meter  *meter
	cancel context.CancelCauseFunc
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.meter.bytes.Add(int64(n))
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.cancel(nil)
	return b.ReadCloser.Close()
}
