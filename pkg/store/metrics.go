package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Condition is the state of one kind's cache.
type Condition struct {
	GVR schema.GroupVersionResource
	// Namespaces is how many caches of one namespace this is the sum of, 0 where it is the cache of the
	// kind. A kind that is kept both ways has a Condition for each.
	Namespaces int
	// Synced tells whether there is a complete list to answer from.
	Synced bool
	// Hot tells whether the kind feeds others, and is kept while nobody asks for it.
	Hot bool
	// Err is why the kind is not up to date, nil while it is; Since is when that began.
	Err   error
	Since time.Time
	// Objects and Bytes are what is kept: Bytes is the length of their JSON.
	Objects int
	Bytes   int64
	// Generation counts the snapshots, ResourceVersion is how far the last one is.
	Generation      uint64
	ResourceVersion string
	// Age is how old the last snapshot is, Lag how long its oldest change waited for it.
	Age, Lag time.Duration
}

// Conditions returns the state of every cache, ordered by group, version and resource.
func (s *Store) Conditions() []Condition {
	var out []Condition
	s.caches.Range(func(_, value any) bool {
		out = append(out, value.(*cache).condition())
		return true
	})
	out = append(out, s.placeConditions()...)
	slices.SortFunc(out, func(a, b Condition) int { return cmp.Compare(a.Name(), b.Name()) })
	return out
}

func (c *cache) condition() Condition {
	c.mu.Lock()
	out := Condition{GVR: c.gvr, Hot: len(c.sinks) > 0, Err: c.err, Since: c.since}
	c.mu.Unlock()
	c.coll.mu.Lock()
	out.Lag = c.coll.lag
	published := c.coll.published
	c.coll.mu.Unlock()
	if snap := c.coll.current.Load(); snap != nil {
		out.Synced, out.Objects, out.Bytes = true, snap.Len(), snap.Bytes()
		out.Generation, out.ResourceVersion = snap.Generation(), snap.ResourceVersion()
		out.Age = c.clock.Since(published)
	}
	return out
}

// Name names the cache: v1/pods, apps/v1/deployments, v1/secrets@namespaces.
func (c *Condition) Name() string {
	if c.Namespaces > 0 {
		return name(c.GVR) + "@namespaces"
	}
	return name(c.GVR)
}

// name writes a GVR as a path writes it: v1/pods, apps/v1/deployments.
func name(gvr schema.GroupVersionResource) string {
	if gvr.Group == "" {
		return gvr.Version + "/" + gvr.Resource
	}
	return gvr.Group + "/" + gvr.Version + "/" + gvr.Resource
}

// collector gives the conditions as metrics, read when they are asked for.
type collector struct{ *Store }

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("ks_cache_"+name, help, []string{"gvr"}, nil)
}

func (c collector) descs() [6]*prometheus.Desc {
	return [...]*prometheus.Desc{
		desc("informers", "Reflectors that follow the kind: one, or one for each namespace that is kept by itself."),
		desc("synced", "1 when there is a complete list to answer from."),
		desc("failing", "1 while the kind can't be followed."),
		desc("objects", "Objects in memory."),
		desc("bytes", "Bytes of the objects' JSON in memory."),
		desc("lag_seconds", "How long the oldest change of the last snapshot waited for it."),
	}
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs() {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	descs := c.descs()
	for _, k := range c.Conditions() {
		label := k.Name()
		for i, v := range [...]float64{
			float64(max(1, k.Namespaces)), bit(k.Synced), bit(k.Err != nil), float64(k.Objects), float64(k.Bytes), k.Lag.Seconds(),
		} {
			ch <- prometheus.MustNewConstMetric(descs[i], prometheus.GaugeValue, v, label)
		}
	}
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
