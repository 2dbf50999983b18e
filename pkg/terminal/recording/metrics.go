package recording

import "github.com/prometheus/client_golang/prometheus"

// The results of recordings, and the reasons of cuts.
const (
	resultComplete = "complete"
	resultCut      = "cut"
	resultFailed   = "failed"

	cutFull  = "full"
	cutLimit = "limit"
	cutWrite = "write"
)

// metrics counts recordings.
type metrics struct {
	ended, cuts *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ks_terminal_recording_total",
			Help: "Recordings of terminals that have ended, by result: complete, cut (with gaps), failed (before the end).",
		}, []string{"result"}),
		cuts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ks_terminal_recording_cut_total",
			Help: "Gaps in recordings of terminals, by reason: full (the queue), limit (of a recording), write (it failed).",
		}, []string{"reason"}),
	}
	// A counter that begins at its first event has no increase.
	for _, result := range []string{resultComplete, resultCut, resultFailed} {
		m.ended.WithLabelValues(result)
	}
	for _, reason := range []string{cutFull, cutLimit, cutWrite} {
		m.cuts.WithLabelValues(reason)
	}
	return m
}

func (m *metrics) register(registerer prometheus.Registerer) error {
	if registerer == nil {
		return nil
	}
	for _, c := range []prometheus.Collector{m.ended, m.cuts} {
		if err := registerer.Register(c); err != nil {
			return err
		}
	}
	return nil
}
