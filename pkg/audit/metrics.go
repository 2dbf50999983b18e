package audit

import "github.com/prometheus/client_golang/prometheus"

// The reasons why events are lost.
const (
	dropFull    = "full"
	dropRefused = "refused"
	dropStop    = "stop"
)

// Metrics counts events.
type Metrics struct {
	written, dropped *prometheus.CounterVec
}

// NewMetrics registers the metrics; registerer may be nil.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		written: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ks_audit_event_total", Help: "Audit events that were written, by backend.",
		}, []string{"backend"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ks_audit_dropped_total",
			Help: "Audit events that were lost, by backend and reason: full (the queue), refused (by the webhook), stop (of the server).",
		}, []string{"backend", "reason"}),
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.written, m.dropped} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
