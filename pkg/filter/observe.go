package filter

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// accessLog is the verbosity from which every request is logged.
const accessLog klog.Level = 4

// Observe counts every request and how long it took, and logs it at verbosity 4: the path only, because a query may have secrets. It is
// the first filter, so that it sees refusals, panics and requests that can't be parsed.
func Observe(m *Metrics) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			start := time.Now()
			w, r, rec := recorded(w, r)
			defer func() { // deferred, because http.ErrAbortHandler passes here
				took := time.Since(start)
				m.observe(rec, r, took)
				if log := klog.V(accessLog); log.Enabled() {
					logAccess(log, rec, r, took)
				}
			}()
			next.ServeHTTP(w, r)
		})
	}
}

func logAccess(log klog.Verbose, rec *record, r *http.Request, took time.Duration) {
	name := ""
	if rec.user != nil {
		name = rec.user.GetName()
	}
	log.InfoS("request", "method", r.Method, "path", r.URL.Path, "user", name, "code", rec.code(),
		"bytes", rec.bytes, "took", took, "from", r.RemoteAddr, "protocol", r.Proto)
}

// code is the status that the client saw. A handler that writes nothing answers 200.
func (rec *record) code() int {
	if rec.status == 0 {
		return http.StatusOK
	}
	return rec.status
}

// maxResources bounds how many different resources get their own series. A client can name any resource in a path, and users with the
// right can create custom resources; memory must stay bounded.
const maxResources = 2048

// Metrics counts requests. A request's series are found in one map of plain values, so that counting one allocates nothing.
type Metrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec

	mu     sync.RWMutex
	series map[seriesKey]series
	known  map[resourceKey]struct{}
}

type resourceKey struct{ group, version, resource string }

type seriesKey struct {
	resourceKey
	verb string
	code int
}

// series are those of requests with the same labels.
type series struct {
	total    prometheus.Counter
	duration prometheus.Observer // nil until one of them was timed
}

// NewMetrics registers ks_server_request_total and ks_server_request_duration_seconds. Requests
// that last as long as the client likes (watches, live pages, logs, terminals) are counted, not timed.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ks_server_request_total",
			Help: "Requests, by what they asked for and the status code of the answer.",
		}, []string{"verb", "group", "version", "resource", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "ks_server_request_duration_seconds",
			Help:    "How long requests took until the last byte of the answer, without watches, live pages, logs and upgraded connections.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"verb", "group", "version", "resource"}),
		series: map[seriesKey]series{},
		known:  map[resourceKey]struct{}{},
	}
	for _, c := range []prometheus.Collector{m.total, m.duration} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register request metrics: %w", err)
		}
	}
	return m, nil
}

func (m *Metrics) observe(rec *record, r *http.Request, took time.Duration) {
	key := seriesKey{verb: verb(rec.info, r.Method), code: rec.code()}
	if rec.info != nil && rec.info.IsResource {
		key.resourceKey = resourceKey{rec.info.APIGroup, rec.info.APIVersion, rec.info.Resource}
	}
	m.mu.RLock()
	s, ok := m.series[key]
	m.mu.RUnlock()
	timed := !lasting(rec.info, r.URL.RawQuery) && key.code != http.StatusSwitchingProtocols
	if !ok || timed && s.duration == nil {
		s = m.find(key, timed)
	}
	s.total.Inc()
	if timed {
		s.duration.Observe(took.Seconds())
	}
}

// find returns the series of a key that has none of its own yet. A resource gets its own once a request for it succeeded, which proves
// that it exists; until then, and beyond the bound, all share one.
func (m *Metrics) find(key seriesKey, timed bool) series {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.known[key.resourceKey]; !known && key.resourceKey != (resourceKey{}) {
		if key.code >= http.StatusBadRequest || len(m.known) >= maxResources {
			key.resourceKey = resourceKey{"unknown", "unknown", "unknown"}
		} else {
			m.known[key.clone()] = struct{}{}
		}
	}
	key.resourceKey, key.verb = key.clone(), strings.Clone(key.verb)
	s := m.series[key]
	if s.total == nil {
		s.total = m.total.WithLabelValues(key.verb, key.group, key.version, key.resource, strconv.Itoa(key.code))
	}
	if timed && s.duration == nil {
		s.duration = m.duration.WithLabelValues(key.verb, key.group, key.version, key.resource)
	}
	m.series[key] = s
	return s
}

// clone returns a copy of k that shares no memory with the path of a request, so that a map does not keep whole requests alive.
func (k resourceKey) clone() resourceKey {
	return resourceKey{strings.Clone(k.group), strings.Clone(k.version), strings.Clone(k.resource)}
}

// verb returns a word from a fixed list: methods are free text on the wire.
func verb(i *request.Info, method string) string {
	v := method
	if i != nil {
		v = i.Verb
	}
	switch v {
	case "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "proxy", "post", "put", "head", "options":
		return v
	}
	return cmp.Or(request.LowerMethod(v), "other")
}

// lasting reports whether the length of a request is the client's choice.
func lasting(i *request.Info, rawQuery string) bool {
	if i == nil {
		return false
	}
	switch i.Subresource {
	case "log", "exec", "attach", "portforward", "proxy":
		return true
	}
	switch i.Verb {
	case "watch", "proxy":
		return true
	case "list": // kube-apiserver has no live pages
		return !i.IsKubernetes && first(rawQuery, "view") == "live"
	}
	return false
}

// first returns the first value of a parameter, which lists use. It allocates only if the value is percent-encoded.
func first(rawQuery, name string) string {
	for rawQuery != "" {
		var pair string
		pair, rawQuery, _ = strings.Cut(rawQuery, "&")
		key, value, _ := strings.Cut(pair, "=")
		if key, err := url.QueryUnescape(key); err != nil || key != name {
			continue
		}
		value, err := url.QueryUnescape(value)
		if err != nil {
			continue // as url.ParseQuery does
		}
		return value
	}
	return ""
}

// record is all that is known of one request: what the filters found out about it, and what was answered. One is made per request, by the
// first filter that needs it. It is both the ResponseWriter, which records what was answered, and the context of the request, from which
// handlers learn the caller and the request. Metrics, access log, audit and recovery all use it. One object instead of a context for each
// finding keeps the filters cheap.
//
// A filter writes its findings before it lets the request go on, and nothing writes them afterwards: goroutines that a handler starts may
// read a record for as long as they like.
type record struct {
	http.ResponseWriter
	context.Context

	info        *request.Info  // nil until the path was understood
	user        user.Info      // nil until a user was authenticated
	credentials credentials    // those of the request, if they were verified
	decision    authz.Decision // the zero value until there was one
	status      int            // 0 until the answer began; 101 once the connection was taken over
	bytes       int64          // of the body

	audited *auditedRequest // nil where nothing is audited

	source func(*http.Request) string // returns where asked comes from; nil if that is not known
	asked  *http.Request
}

// hijackable is a record whose connection can be taken over (HTTP/1.1). It is its own type because code that looks for an http.Hijacker
// must not find one where there is none (HTTP/2).
type hijackable struct {
	record
}

type recordKey struct{}

// recorded returns the writer and the request to go on with, and the record of the request: the one that its context has, or a new one.
func recorded(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request, *record) {
	if rec, ok := r.Context().Value(recordKey{}).(*record); ok {
		return w, r, rec
	}
	return newRecord(w, r)
}

// newRecord returns a new record of a request, even if its context belongs to another one.
func newRecord(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request, *record) {
	ctx := r.Context()
	if _, ok := w.(http.Hijacker); ok {
		h := &hijackable{record{ResponseWriter: w, Context: ctx}}
		return h, r.WithContext(&h.record), &h.record
	}
	rec := &record{ResponseWriter: w, Context: ctx}
	return rec, r.WithContext(rec), rec
}

// Value returns the findings under the keys of their packages, and otherwise the values of the context that the request came with.
func (rec *record) Value(key any) any {
	switch key.(type) {
	case recordKey:
		return rec
	case request.InfoKey:
		if rec.info != nil {
			return rec.info
		}
	case request.UserKey:
		if rec.user != nil {
			return rec.user
		}
	case authz.DecisionKey:
		return &rec.decision
	case request.SourceKey:
		if rec.source != nil {
			return rec.source(rec.asked) // computed only on demand, and not for each request
		}
	case request.BearerTokenKey:
		return rec.credentials.token() // and none of an outer request
	case audit.Key:
		if rec.audited != nil {
			return &rec.audited.Event
		}
		return nil // and not the event of an outer request
	case credentialsKey:
		return &rec.credentials
	}
	return rec.Context.Value(key)
}

// Unwrap serves http.ResponseController.
func (rec *record) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// WriteHeader records the final status; informational ones (RFC 9110, 15.2) come before it.
func (rec *record) WriteHeader(code int) {
	if rec.status == 0 && (code >= http.StatusOK || code == http.StatusSwitchingProtocols) {
		rec.begun(code)
	}
	rec.ResponseWriter.WriteHeader(code)
}

// Write counts the bytes that are written.
func (rec *record) Write(p []byte) (int, error) {
	rec.begin()
	n, err := rec.ResponseWriter.Write(p)
	rec.bytes += int64(n)
	if b := rec.audited.answer(); b != nil {
		_, _ = b.Write(p)
	}
	return n, err
}

// WriteString is Write without a copy of s, if the inner writer supports that.
func (rec *record) WriteString(s string) (int, error) {
	rec.begin()
	n, err := io.WriteString(rec.ResponseWriter, s)
	rec.bytes += int64(n)
	if b := rec.audited.answer(); b != nil {
		_, _ = b.Write([]byte(s))
	}
	return n, err
}

// ReadFrom uses the inner writer's fast way of copying, if it has one.
func (rec *record) ReadFrom(src io.Reader) (int64, error) {
	rec.begin()
	if b := rec.audited.answer(); b != nil {
		src = io.TeeReader(src, b)
	}
	n, err := io.Copy(rec.ResponseWriter, src)
	rec.bytes += n
	return n, err
}

// Flush sends what is buffered, if the inner writer supports that.
func (rec *record) Flush() { _ = rec.FlushError() }

// FlushError is Flush for http.ResponseController.
func (rec *record) FlushError() error {
	err := http.NewResponseController(rec.ResponseWriter).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		rec.begin()
	}
	return err
}

func (rec *record) begin() {
	if rec.status == 0 {
		rec.begun(http.StatusOK)
	}
}

// begun records that the answer begins.
func (rec *record) begun(code int) {
	rec.status = code
	if rec.audited != nil {
		rec.audited.began(rec)
	}
}

// Hijack takes the connection over.
func (h *hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := h.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil && h.status == 0 {
		h.begun(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}

// Recover answers a panic with 500, and logs it with its stack. http.ErrAbortHandler, by which a handler drops the connection, goes on to
// the server; so does a panic after the answer began, because a client must not take half an answer for a whole one.
func Recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w, r, rec := recorded(w, r)
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(http.ErrAbortHandler)
			}
			klog.ErrorS(nil, "panic while serving a request", "method", r.Method, "path", r.URL.Path,
				"panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			if rec.status != 0 {
				panic(http.ErrAbortHandler)
			}
			h := w.Header()
			for _, k := range []string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified", "Cache-Control"} {
				h.Del(k) // they described the abandoned answer
			}
			s := web.Status(apierrors.NewInternalError(errors.New("see the server's log")))
			web.WriteJSON(w, r, int(s.Code), s)
		}()
		next.ServeHTTP(w, r)
	})
}
