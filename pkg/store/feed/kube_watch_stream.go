package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store/index"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
)

// maxHeld is how many events wait to be sent on as a batch, and how many batches wait to be received.
const maxHeld = 32

// watchStream is an open watch.
type watchStream struct {
	body    io.ReadCloser
	decoder *index.Decoder
	meter   *Meter
	events  chan watch.Event
	failed  func(error)
	once    sync.Once
	stop    chan struct{}
	// conn reports when everything that arrived was read; nil if it can't. Events that arrived together are then sent on as
	// a batch: waking up the receiver costs more than most events do.
	conn *batchingConn

	mu sync.Mutex // the connection may be read by net/http itself when the stream is over
	// listing is true before the bookmark that ends the initial objects: the reflector looks at each of these.
	listing bool
	// initial is true while the existing objects arrive. They are used only once complete, so they are sent on in large
	// batches.
	initial bool
	held    []watch.Event
	// version is where the watch began, until something else arrived.
	version string
}

// ResultChan returns the events; it is closed when the stream ends.
func (w *watchStream) ResultChan() <-chan watch.Event { return w.events }

// Stop ends the stream.
func (w *watchStream) Stop() {
	w.once.Do(func() {
		close(w.stop)
		_ = w.body.Close()
	})
}

func (w *watchStream) read(r *rawjson.Reader) {
	defer w.close()
	defer w.Stop()
	for {
		event, err := w.event(r)
		if err != nil {
			w.end(err)
			return
		}
		w.meter.count(event.Type)
		if event.Type == watch.Error {
			w.failed(apierrors.FromObject(event.Object))
		}
		if !w.send(event) {
			return
		}
	}
}

// close ends what ResultChan returned.
func (w *watchStream) close() {
	if w.conn != nil {
		w.conn.stream.CompareAndSwap(w, nil)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = nil // a last call of pass finds nothing
	close(w.events)
}

// end records why the stream is over, where that is a fault.
func (w *watchStream) end(err error) {
	if !w.ended(err) {
		w.failed(err)
		w.send(watch.Event{Type: watch.Error, Object: broken(err)})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.version != "" && !w.initial {
		// A reflector lists everything again after a watch that was short and empty. Here such watches are opened at growing
		// intervals instead.
		w.held = append(w.held, watch.Event{Type: watch.Bookmark,
			Object: &index.Decoded{Incoming: &index.Incoming{Record: &index.Record{ResourceVersion: w.version}}}})
	}
	w.flush()
}

// ended reports whether err is only the end of the stream, by the server or by us.
func (w *watchStream) ended(err error) bool {
	select {
	case <-w.stop:
		return true
	default:
		// A watch is cut off when its server stops: the reflector continues where it was.
		return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled) || errors.Is(err, ErrSilent) ||
			utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
	}
}

// send queues an event, and reports whether the stream is still received.
func (w *watchStream) send(e watch.Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = append(w.held, e)
	marks := e.Type == watch.Bookmark
	listed := marks && e.Object.(*index.Decoded).Annotations[metav1.InitialEventsAnnotationKey] == "true"
	switch {
	case marks && w.initial:
		w.initial, w.version = false, e.Object.(*index.Decoded).Record.ResourceVersion
	case e.Type != watch.Added || !w.initial:
		w.initial, w.version = false, ""
	}
	waits := w.initial || w.conn != nil && !w.listing
	if waits && len(w.held) < maxHeld {
		return true
	}
	defer func() { w.listing = w.listing && !listed }()
	return w.flush()
}

// pass sends on the queued events, since nothing more has arrived.
func (w *watchStream) pass() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.initial {
		w.flush()
	}
}

// flush sends on the queued events, and reports whether the stream is still received. It needs mu.
func (w *watchStream) flush() bool {
	for rest := w.held; len(rest) > 0; {
		e, n := rest[0], 1
		if !w.listing {
			e, n = batchOf(rest)
		}
		select {
		case w.events <- e:
		case <-w.stop:
			return false
		}
		rest = rest[n:]
	}
	clear(w.held)
	w.held = w.held[:0]
	return true
}

// event reads the next frame.
func (w *watchStream) event(r *rawjson.Reader) (watch.Event, error) {
	frame, err := r.Line()
	if err != nil {
		return watch.Event{}, fmt.Errorf("read a watch: %w", err)
	}
	t, object, err := split(frame)
	if err != nil {
		return watch.Event{}, fmt.Errorf("read a watch event: %w", err)
	}
	switch t {
	case watch.Bookmark:
		return watch.Event{Type: t, Object: w.decoder.Bookmark(object)}, nil
	case watch.Error:
		status := &metav1.Status{}
		if err := json.Unmarshal([]byte(object), status); err != nil {
			return watch.Event{}, fmt.Errorf("read the error of a watch: %w", err)
		}
		return watch.Event{Type: t, Object: status}, nil
	}
	o, err := w.decoder.Decode(object, "")
	if err != nil {
		return watch.Event{}, fmt.Errorf("read a watch event: %w", err)
	}
	return watch.Event{Type: t, Object: o}, nil
}

// split returns the type and the object of a frame. Where the frame is as kube-apiserver writes it, the object is not parsed
// here, since its reader does that.
func split(frame string) (t watch.EventType, object string, err error) {
	var kind string
	if rest, found := strings.CutPrefix(frame, `{"type":"`); found {
		if kind, rest, found = strings.Cut(rest, `","object":`); found && strings.HasSuffix(rest, "}") {
			if t = eventType(kind); t != "" {
				return t, rest[:len(rest)-1], nil
			}
		}
	}
	m := rawjson.Object(frame)
	for m.Next() {
		switch m.Key {
		case "type":
			kind = rawjson.Text(m.Value)
		case "object":
			object = m.Value
		}
	}
	if t = eventType(kind); t == "" && m.Err() == nil {
		return "", "", fmt.Errorf("unknown watch event %.40q", kind)
	}
	return t, object, m.Err()
}

// eventType returns the constant equal to text, whose memory is reused, and "" for any other text.
func eventType(text string) watch.EventType {
	for _, t := range [...]watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error} {
		if text == string(t) {
			return t
		}
	}
	return ""
}

// broken is the status for a stream that can't be parsed, in the form in which a watch carries errors.
func broken(err error) *metav1.Status {
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusBadGateway, Reason: metav1.StatusReasonUnknown, Message: err.Error(),
	}
}
