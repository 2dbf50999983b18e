package filter

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kapis.dev/ks-apiserver/pkg/request"
)

// maxResources bounds how many different resources get series of their own. A client can name any
// resource in a path, and a custom resource can be made by whoever may; memory must not follow.
const maxResources = 2048

// Metrics counts requests. A request's series are found in one map of plain values, so that
// counting one costs no allocation.
type Metrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec

	mu       sync.RWMutex
	counters map[counterKey]prometheus.Counter
	timers   map[timerKey]prometheus.Observer
	known    map[resourceKey]struct{}
}

type resourceKey struct{ group, version, resource string }

type timerKey struct {
	resourceKey
	verb string
}

type counterKey struct {
	timerKey
	code int
}

// NewMetrics registers ks_server_request_total and ks_server_request_duration_seconds. Requests
// that last as long as the client likes (watches, logs, terminals) are counted, not timed.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ks_server_request_total",
			Help: "Requests, by what they asked for and the status code of the answer.",
		}, []string{"verb", "group", "version", "resource", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "ks_server_request_duration_seconds",
			Help:    "How long requests took until the last byte of the answer, without watches, logs and upgraded connections.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"verb", "group", "version", "resource"}),
		counters: map[counterKey]prometheus.Counter{},
		timers:   map[timerKey]prometheus.Observer{},
		known:    map[resourceKey]struct{}{},
	}
	for _, c := range []prometheus.Collector{m.total, m.duration} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register request metrics: %w", err)
		}
	}
	return m, nil
}

func (m *Metrics) observe(rec *record, method string, took time.Duration) {
	code := rec.code()
	key := counterKey{timerKey: timerKey{verb: verb(rec.info, method)}, code: code}
	if rec.info != nil && rec.info.IsResource {
		key.resourceKey = m.resource(rec.info, code)
	}
	m.counter(key).Inc()
	if !lasting(rec.info) && code != http.StatusSwitchingProtocols {
		m.timer(key.timerKey).Observe(took.Seconds())
	}
}

// resource returns the labels of what was asked for. A resource gets its own once a request for it
// succeeded, which proves that it exists; until then, and beyond the bound, all share one.
func (m *Metrics) resource(i *request.Info, code int) resourceKey {
	k := resourceKey{i.APIGroup, i.APIVersion, i.Resource}
	m.mu.RLock()
	_, known := m.known[k]
	full := len(m.known) >= maxResources
	m.mu.RUnlock()
	switch {
	case known:
		return k
	case code >= http.StatusBadRequest || full:
		return resourceKey{"unknown", "unknown", "unknown"}
	}
	k = k.clone()
	m.mu.Lock()
	m.known[k] = struct{}{}
	m.mu.Unlock()
	return k
}

func (m *Metrics) counter(k counterKey) prometheus.Counter {
	m.mu.RLock()
	c := m.counters[k]
	m.mu.RUnlock()
	if c == nil {
		k.timerKey = k.clone()
		c = m.total.WithLabelValues(k.verb, k.group, k.version, k.resource, strconv.Itoa(k.code))
		m.mu.Lock()
		m.counters[k] = c
		m.mu.Unlock()
	}
	return c
}

func (m *Metrics) timer(k timerKey) prometheus.Observer {
	m.mu.RLock()
	t := m.timers[k]
	m.mu.RUnlock()
	if t == nil {
		k = k.clone()
		t = m.duration.WithLabelValues(k.verb, k.group, k.version, k.resource)
		m.mu.Lock()
		m.timers[k] = t
		m.mu.Unlock()
	}
	return t
}

// clone returns k without ties to the path that its strings were cut from, so that a map does not
// keep whole requests alive.
func (k resourceKey) clone() resourceKey {
	return resourceKey{strings.Clone(k.group), strings.Clone(k.version), strings.Clone(k.resource)}
}

func (k timerKey) clone() timerKey { return timerKey{k.resourceKey.clone(), k.verb} }

// verb is a word out of a fixed list: methods are free text on the wire.
func verb(i *request.Info, method string) string {
	v := method
	if i != nil {
		v = i.Verb
	}
	switch v {
	case "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "proxy", "post", "put", "head", "options":
		return v
	case http.MethodGet:
		return "get"
	case http.MethodHead:
		return "head"
	case http.MethodPost:
		return "post"
	case http.MethodPut:
		return "put"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	case http.MethodOptions:
		return "options"
	}
	return "other"
}

// lasting tells requests whose length is the client's choice.
func lasting(i *request.Info) bool {
	if i == nil {
		return false
	}
	switch i.Subresource {
	case "log", "exec", "attach", "portforward", "proxy":
		return true
	}
	return i.Verb == "watch" || i.Verb == "proxy"
}
