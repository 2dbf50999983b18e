package fleetlist

import (
	"github.com/prometheus/client_golang/prometheus"

	"kapis.dev/ks-apiserver/pkg/cluster/merge"
)

// Asked counts what lists over all clusters ask, and which clusters are missing from their answers.
type Asked struct{ total, missing, unchanged *prometheus.CounterVec }

var _ prometheus.Collector = (*Asked)(nil)

// NewAsked returns counters at zero.
func NewAsked() *Asked {
	return &Asked{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ks_fleet_asked_total",
			Help: "The lists over all clusters that were to have objects of a cluster."}, []string{"cluster"}),
		missing: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ks_fleet_missing_total",
			Help: "The lists over all clusters from which a cluster was missing, by the reason."}, []string{"cluster", "reason"}),
		unchanged: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ks_fleet_unchanged_total",
			Help: "The pages of keys of a cluster that had not changed, and did not travel again."}, []string{"cluster"}),
	}
}

func (a *Asked) count(sources []merge.Source, missing []merge.Missing) {
	for i := range sources {
		a.total.WithLabelValues(sources[i].Name).Inc()
	}
	for _, m := range missing {
		a.missing.WithLabelValues(m.Name, string(m.Reason)).Inc()
	}
}

func (a *Asked) unchangedAt(cluster string) { a.unchanged.WithLabelValues(cluster).Inc() }

// Describe implements prometheus.Collector.
func (a *Asked) Describe(out chan<- *prometheus.Desc) {
	a.total.Describe(out)
	a.missing.Describe(out)
	a.unchanged.Describe(out)
}

// Collect implements prometheus.Collector.
func (a *Asked) Collect(out chan<- prometheus.Metric) {
	a.total.Collect(out)
	a.missing.Collect(out)
	a.unchanged.Collect(out)
}
