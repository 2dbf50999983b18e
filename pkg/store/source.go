package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"kapis.dev/ks-apiserver/pkg/rawjson"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// maxObject bounds one object of a stream (etcd's default limit is 1.5 MiB).
const maxObject = 32 << 20

// newClient returns a client that is asked for bytes only.
func newClient(config *rest.Config) (*rest.RESTClient, error) {
	c := rest.CopyConfig(config)
	c.QPS = -1    // reflectors back off by themselves, and must not wait for one another
	c.Timeout = 0 // a watch is open for minutes
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c.WarningHandlerWithContext = rest.NoWarnings{}
	client, err := rest.UnversionedRESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", config.Host, err)
	}
	return client, nil
}

// source lists and watches one kind: a cache.ListerWatcherWithContext that keeps the
// objects' bytes.
type source struct {
	client    *rest.RESTClient
	gvr       schema.GroupVersionResource
	namespace string // empty for all
	// decoder makes a decoder for one stream: the end of one may overlap the begin of the next.
	decoder func() *decoder
	// noWatchList tells the reflector to begin with a list, for servers that don't end a stream of
	// initial events.
	noWatchList bool
	// progress counts what arrived, so that a watchdog sees whether anything does.
	progress *atomic.Int64
	// failed is told every error of a request or a stream, opened that a watch is open.
	failed func(error)
	opened func()
}

// IsWatchListSemanticsUnSupported is how a reflector asks whether it has to begin with a list.
func (s *source) IsWatchListSemanticsUnSupported() bool { return s.noWatchList }

// List is ListWithContext without a context.
func (s *source) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

// Watch is WatchWithContext without a context.
func (s *source) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

// ListWithContext reads one page of a list.
func (s *source) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	body, err := s.open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	l, err := s.decoder().list(rawjson.NewReader(s.counted(body), maxObject))
	if err != nil {
		err = fmt.Errorf("read the list of %s: %w", s.gvr.Resource, err)
		s.failed(err)
		return nil, err
	}
	return l, nil
}

// WatchWithContext opens a watch.
func (s *source) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	body, err := s.open(ctx, o)
	if err != nil {
		if o.SendInitialEvents != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			// A reflector would repeat some of these in a loop of its own, which no context ends;
			// with the cause out of sight it goes on to a list, and fails there.
			return nil, fmt.Errorf("open a watch: %v", err) //nolint:errorlint // see above
		}
		return nil, err
	}
	s.opened()
	w := &stream{body: body, decoder: s.decoder(), events: make(chan watch.Event, 64), stop: make(chan struct{}), failed: s.failed}
	go w.read(rawjson.NewReader(s.counted(body), maxObject))
	return w, nil
}

func (s *source) open(ctx context.Context, o metav1.ListOptions) (io.ReadCloser, error) {
	body, err := s.client.Get().AbsPath(path(s.gvr, s.namespace)).
		SpecificallyVersionedParams(&o, metav1.ParameterCodec, metav1.SchemeGroupVersion).
		MaxRetries(0).Stream(ctx)
	if err != nil {
		s.failed(err)
		return nil, err
	}
	s.progress.Add(1)
	return body, nil
}

func path(gvr schema.GroupVersionResource, namespace string) string {
	place := gvr.Version + "/"
	if namespace != "" {
		place += "namespaces/" + namespace + "/"
	}
	if gvr.Group == "" {
		return "/api/" + place + gvr.Resource
	}
	return "/apis/" + gvr.Group + "/" + place + gvr.Resource
}

func (s *source) counted(r io.Reader) io.Reader { return counter{r, s.progress} }

type counter struct {
	io.Reader
	n *atomic.Int64
}

func (c counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// stream is an open watch.
type stream struct {
	body    io.ReadCloser
	decoder *decoder
	events  chan watch.Event
	failed  func(error)
	once    sync.Once
	stop    chan struct{}
}

// ResultChan returns the events; it is closed when the stream ends.
func (w *stream) ResultChan() <-chan watch.Event { return w.events }

// Stop ends the stream.
func (w *stream) Stop() {
	w.once.Do(func() {
		close(w.stop)
		_ = w.body.Close()
	})
}

func (w *stream) read(r *rawjson.Reader) {
	defer close(w.events)
	defer w.Stop()
	for {
		event, err := w.next(r)
		if err != nil {
			if !w.ended(err) {
				w.failed(err)
				w.send(watch.Event{Type: watch.Error, Object: broken(err)})
			}
			return
		}
		if event.Type == watch.Error {
			w.failed(apierrors.FromObject(event.Object))
		}
		if !w.send(event) {
			return
		}
	}
}

// ended tells whether err is only the end of the stream: the server's, or our own.
func (w *stream) ended(err error) bool {
	select {
	case <-w.stop:
		return true
	default:
		// A watch is cut off when its server stops: the reflector goes on where it was.
		return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled) ||
			utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
	}
}

func (w *stream) send(e watch.Event) bool {
	select {
	case w.events <- e:
		return true
	case <-w.stop:
		return false
	}
}

func (w *stream) next(r *rawjson.Reader) (watch.Event, error) {
	frame, err := r.Value()
	if err != nil {
		return watch.Event{}, fmt.Errorf("read a watch: %w", err)
	}
	var kind, object string
	m := rawjson.Object(frame)
	for m.Next() {
		switch m.Key {
		case "type":
			kind = rawjson.Text(m.Value)
		case "object":
			object = m.Value
		}
	}
	if m.Err() != nil {
		return watch.Event{}, fmt.Errorf("read a watch event: %w", m.Err())
	}
	switch t := watch.EventType(kind); t {
	case watch.Added, watch.Modified, watch.Deleted:
		o, err := w.decoder.decode(object, "")
		if err != nil {
			return watch.Event{}, fmt.Errorf("read a watch event: %w", err)
		}
		return watch.Event{Type: t, Object: o}, nil
	case watch.Bookmark:
		return watch.Event{Type: t, Object: w.decoder.bookmark(object)}, nil
	case watch.Error:
		status := &metav1.Status{}
		if err := json.Unmarshal([]byte(object), status); err != nil {
			return watch.Event{}, fmt.Errorf("read the error of a watch: %w", err)
		}
		return watch.Event{Type: t, Object: status}, nil
	default:
		return watch.Event{}, fmt.Errorf("unknown watch event %.40q", kind)
	}
}

// broken says that a stream made no sense, in the form in which a watch carries errors.
func broken(err error) *metav1.Status {
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusBadGateway, Reason: metav1.StatusReasonUnknown, Message: err.Error(),
	}
}
