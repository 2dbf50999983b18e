package filter

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kapis.dev/ks-apiserver/pkg/request"
)

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
	if request.IsProbe(r.URL.Path) { // by which a replica that is not ready answers 503, and no user noticed
		key.verb = "probe"
	}
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

// lasting reports whether the length of a request is the client's choice. That of a log is, also where it is not followed.
func lasting(i *request.Info, rawQuery string) bool {
	return i != nil && (i.Subresource == "log" || i.Lasts(rawQuery))
}
