package mirror

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Lag measures how long kube-apiserver decides by an outdated mirror: from the first event that affects a role until
// its native objects are written.
type Lag struct {
	now     func() time.Time
	seconds *prometheus.HistogramVec

	mu    sync.Mutex
	since map[string]clock // by source, of roles that wait to be reconciled, or are being reconciled
}

// clock measures one role. It runs on while the role is reconciled: where kube-apiserver does not answer, that is most of the time.
type clock struct {
	start time.Time
	next  time.Time // of the first event since the last reconciliation began, zero if there was none
}

// NewLag registers the metrics ks_mirror_lag_seconds{kind}, of what was written, and ks_mirror_waiting_seconds, of what could not be.
func NewLag(registry prometheus.Registerer, now func() time.Time) (*Lag, error) {
	l := &Lag{now: now, since: map[string]clock{}}
	l.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "ks_mirror_lag_seconds",
		Help:    "Time from a change of a role, binding, template or namespace until the native objects that mirror it were written.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60},
	}, []string{"kind"})
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ks_mirror_waiting_seconds",
		Help: "How long the change has waited whose native objects are longest not written; 0 while none waits.",
	}, l.waiting)
	for _, metric := range []prometheus.Collector{l.seconds, waiting} {
		if err := registry.Register(metric); err != nil {
			return nil, fmt.Errorf("register the metrics of the mirror's lag: %w", err)
		}
	}
	return l, nil
}

// waiting returns how many seconds the oldest clock has run.
func (l *Lag) waiting() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	oldest := now
	for _, c := range l.since {
		if c.start.Before(oldest) {
			oldest = c.start
		}
	}
	return now.Sub(oldest).Seconds()
}

// handler returns an event handler that enqueues the roles that keys returns for an object, and starts their clocks.
func (l *Lag) handler(kind string, keys func(context.Context, client.Object) []types.NamespacedName) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		found := keys(ctx, o)
		out := make([]reconcile.Request, len(found))
		for i, key := range found {
			out[i] = reconcile.Request{NamespacedName: key}
			l.changed(Source(kind, key))
		}
		return out
	})
}

// changed starts the clock of source, unless it is running already.
func (l *Lag) changed(source string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.since[source]
	switch now := l.now(); {
	case !ok:
		c.start = now
	case c.next.IsZero():
		c.next = now
	}
	l.since[source] = c
}

// begin returns when the clock of source was started, as its reconciliation begins; ok is false if it is not running.
func (l *Lag) begin(source string) (start time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.since[source]
	if ok {
		c.next = time.Time{}
		l.since[source] = c
	}
	return c.start, ok
}

// done stops the clock that begin returned. Of what has changed since then it goes on: the reconciliation may not have seen that.
func (l *Lag) done(source string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.since[source]; c.next.IsZero() {
		delete(l.since, source)
	} else {
		l.since[source] = clock{start: c.next}
	}
}

func (l *Lag) observe(kind string, start time.Time) {
	l.seconds.WithLabelValues(kind).Observe(l.now().Sub(start).Seconds())
}
