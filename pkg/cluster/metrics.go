package cluster

import "github.com/prometheus/client_golang/prometheus"

// A metric of each member. The dashboard has those that are described by prometheus.NewDesc itself (tools/dashboard).
var (
	linksDesc = prometheus.NewDesc("ks_member_links", "The links that a member cluster has to this server; 0 for none.",
		[]string{"cluster"}, nil)
	runningDesc = prometheus.NewDesc("ks_member_in_flight", "The requests and streams that run at a member cluster.", []string{"cluster"}, nil)
	syncedDesc  = prometheus.NewDesc("ks_member_synced", "1 where a member cluster has been told everything since it was linked.",
		[]string{"cluster"}, nil)
	pendingDesc = prometheus.NewDesc("ks_member_sync_pending", "The objects that a member cluster still has to get, or to lose.",
		[]string{"cluster"}, nil)
)

var _ prometheus.Collector = (*Members)(nil)

// Describe implements prometheus.Collector.
func (m *Members) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{linksDesc, runningDesc, syncedDesc, pendingDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Members) Collect(out chan<- prometheus.Metric) {
	for _, uid := range m.UIDs() {
		member := m.ByUID(uid)
		if member == nil {
			continue
		}
		s := member.state
		s.mu.Lock()
		links, running := len(s.all), s.running
		s.mu.Unlock()
		told, pending := member.Synced()
		synced := 0.0
		if told && links > 0 {
			synced = 1
		}
		for d, v := range map[*prometheus.Desc]float64{linksDesc: float64(links), runningDesc: float64(running), syncedDesc: synced,
			pendingDesc: float64(len(pending))} {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, member.Name)
		}
	}
}
