package cluster

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A metric of each member. The dashboard has those that are described by prometheus.NewDesc itself (tools/dashboard).
var (
	upDesc = prometheus.NewDesc("ks_member_up",
		"1 where a member cluster is linked, to this replica or another one, and takes requests.", []string{"cluster"}, nil)
	linksDesc = prometheus.NewDesc("ks_member_links",
		"The links that a member cluster has to this server; 0 for none.", []string{"cluster"}, nil)
	breakerDesc = prometheus.NewDesc("ks_member_breaker",
		"1 where a member cluster is spared, since requests failed on their way.", []string{"cluster"}, nil)
	runningDesc = prometheus.NewDesc("ks_member_in_flight",
		"The requests and streams that run at a member cluster.", []string{"cluster"}, nil)
	syncedDesc = prometheus.NewDesc("ks_member_synced",
		"1 where a member cluster has been told everything since it was linked.", []string{"cluster"}, nil)
	pendingDesc = prometheus.NewDesc("ks_member_sync_pending",
		"The objects that a member cluster still has to get, or to lose.", []string{"cluster"}, nil)
	degradedDesc = prometheus.NewDesc("ks_member_degraded",
		"1 where a member cluster is linked, and does not serve all, since its kube-apiserver is down.", []string{"cluster"}, nil)
	forwardsDesc = prometheus.NewDesc("ks_peer_forwarded_total",
		"The requests to member clusters that went by another replica of this hub.", nil, nil)
	replicasDesc = prometheus.NewDesc("ks_fleet_replicas", "The other replicas of this hub that this one is connected to.", nil, nil)
)

// counts count the requests to members.
type counts struct {
	once      sync.Once
	forwarded atomic.Int64
	requests  *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
}

func (c *counts) made() *counts {
	c.once.Do(func() {
		c.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ks_member_requests_total",
			Help: "The requests to a member cluster: answered, failed on their way, or refused, since it has no link or is busy."},
			[]string{"cluster", "result"})
		c.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "ks_member_request_seconds",
			Help:    "How long a member cluster takes to begin its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}}, []string{"cluster"})
	})
	return c
}

func (c *counts) refused(name string) { c.made().requests.WithLabelValues(name, "refused").Inc() }

func (c *counts) count(name string, begun time.Time, err error) {
	c.made()
	if err != nil {
		c.requests.WithLabelValues(name, "failed").Inc()
		return
	}
	c.requests.WithLabelValues(name, "answered").Inc()
	c.seconds.WithLabelValues(name).Observe(time.Since(begun).Seconds())
}

// forget drops the numbers of a member that has left.
func (c *counts) forget(name string) {
	c.made().requests.DeletePartialMatch(prometheus.Labels{"cluster": name})
	c.seconds.DeleteLabelValues(name)
}

var _ prometheus.Collector = (*Members)(nil)

// Describe implements prometheus.Collector.
func (m *Members) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{upDesc, linksDesc, breakerDesc, runningDesc, syncedDesc, pendingDesc, degradedDesc, forwardsDesc,
		replicasDesc} {
		out <- d
	}
	c := m.counts.made()
	c.requests.Describe(out)
	c.seconds.Describe(out)
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
		links, running, spared := len(s.all), s.inFlight.count(), s.breaker.isOpen(m.Now())
		s.mu.Unlock()
		linked, _ := member.Linked()
		told, pending := member.SyncedHere()
		for d, v := range map[*prometheus.Desc]float64{upDesc: one(linked && !spared && member.Trouble == ""), linksDesc: float64(links),
			breakerDesc: one(spared), runningDesc: float64(running), syncedDesc: one(told && links > 0), pendingDesc: float64(len(pending)),
			degradedDesc: one(linked && member.Degraded() != "")} {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, member.Name)
		}
	}
	m.mu.RLock()
	others := len(m.elsewhere)
	m.mu.RUnlock()
	c := m.counts.made()
	out <- prometheus.MustNewConstMetric(replicasDesc, prometheus.GaugeValue, float64(others))
	out <- prometheus.MustNewConstMetric(forwardsDesc, prometheus.CounterValue, float64(c.forwarded.Load()))
	c.requests.Collect(out)
	c.seconds.Collect(out)
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
