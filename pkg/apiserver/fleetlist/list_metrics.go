package fleetlist

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"kapis.dev/ks-apiserver/pkg/cluster/merge"
)

// Asked counts what lists over all clusters ask, and which clusters are missing from their answers.
type Asked struct {
	total, missing, unchanged *prometheus.CounterVec
	bytes                     prometheus.GaugeFunc
	// kept returns how many bytes of answers are kept, once there are lists.
	kept atomic.Pointer[func() int64]
}

var _ prometheus.Collector = (*Asked)(nil)

// NewAsked returns counters at zero.
func NewAsked() *Asked {
	a := &Asked{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ks_fleet_asked_total",
			Help: "The lists over all clusters that were to have objects of a cluster."}, []string{"cluster"}),
		missing: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ks_fleet_missing_total",
			Help: "The lists over all clusters from which a cluster was missing, by the reason."}, []string{"cluster", "reason"}),
		unchanged: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ks_fleet_unchanged_total",
			Help: "The pages of a cluster that had not changed, and did not travel again."}, []string{"cluster"}),
	}
	a.bytes = prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ks_fleet_kept_bytes",
		Help: "The bytes of answers of lists over all clusters that are kept for those who got them."}, func() float64 {
		if kept := a.kept.Load(); kept != nil {
			return float64((*kept)())
		}
		return 0
	})
	return a
}

func (a *Asked) count(sources []merge.Source, missing []merge.Missing) {
	for i := range sources {
		a.total.WithLabelValues(sources[i].Name).Inc()
	}
	for _, m := range missing {
		a.missing.WithLabelValues(m.Name, string(m.Reason)).Inc()
	}
}

func (a *Asked) missingAt(m *merge.Missing) {
	a.missing.WithLabelValues(m.Name, string(m.Reason)).Inc()
}

func (a *Asked) unchangedAt(cluster string) { a.unchanged.WithLabelValues(cluster).Inc() }

// Describe implements prometheus.Collector.
func (a *Asked) Describe(out chan<- *prometheus.Desc) {
	a.total.Describe(out)
	a.missing.Describe(out)
	a.unchanged.Describe(out)
	a.bytes.Describe(out)
}

// Collect implements prometheus.Collector.
func (a *Asked) Collect(out chan<- prometheus.Metric) {
	a.total.Collect(out)
	a.missing.Collect(out)
	a.unchanged.Collect(out)
	a.bytes.Collect(out)
}
