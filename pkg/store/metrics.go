package store

import (
	"github.com/prometheus/client_golang/prometheus"
)

// collector exports the conditions as metrics, read at each scrape.
type collector struct{ *Store }

// figure is a metric, and how its value is read from a condition.
type figure struct {
	name, help string
	kind       prometheus.ValueType
	value      func(*Condition) float64
	// shown reports whether there is a value; nil for always.
	shown func(*Condition) bool
}

func (f *figure) desc() *prometheus.Desc {
	return prometheus.NewDesc("ks_cache_"+f.name, f.help, []string{"gvr"}, nil)
}

func synced(k *Condition) bool { return k.Synced }

func figures() []figure {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	return []figure{
		{"informers", "Reflectors that follow the kind: one, or one for each namespace that is kept by itself.", gauge,
			func(k *Condition) float64 { return float64(max(1, k.Namespaces)) }, nil},
		{"synced", "1 when there is a complete list to answer from.", gauge, func(k *Condition) float64 { return bit(k.Synced) }, nil},
		{"failing", "1 while the kind can't be followed.", gauge, func(k *Condition) float64 { return bit(k.Err != nil) }, nil},
		{"objects", "Objects in memory.", gauge, func(k *Condition) float64 { return float64(k.Objects) }, nil},
		{"bytes", "Bytes of the objects' JSON in memory.", gauge, func(k *Condition) float64 { return float64(k.Bytes) }, nil},
		{"memory_bytes", "Roughly what the objects and their history take in memory.", gauge,
			func(k *Condition) float64 { return float64(k.Memory) }, nil},
		{"refused", "1 while the kind has too many objects for the memory bound, and can't be listed.", gauge,
			func(k *Condition) float64 { return bit(k.Refused) }, nil},
		{"lag_seconds", "How long the oldest change of the last snapshot waited for it.", gauge,
			func(k *Condition) float64 { return k.Lag.Seconds() }, nil},
		{"generation_age_seconds", "How old the last snapshot is.", gauge, func(k *Condition) float64 { return k.Age.Seconds() }, synced},
		{"resyncs_total", "Complete lists after the first, read again because a watch could not go on.", counter,
			func(k *Condition) float64 { return float64(k.Resyncs) }, nil},
		{"watch_restarts_total", "Watches that were opened after the first.", counter, func(k *Condition) float64 { return float64(k.Restarts) },
			nil},
		{"last_error_age_seconds", "How long ago something went wrong last, healed or not; absent where nothing ever did.", gauge,
			func(k *Condition) float64 { return k.FailedAge.Seconds() }, func(k *Condition) bool { return !k.Failed.IsZero() }},
	}
}

func boundDesc() *prometheus.Desc {
	return prometheus.NewDesc("ks_cache_memory_bound_bytes", "How much memory all kinds may take together; absent where there is no bound.",
		nil, nil)
}

func eventsDesc() *prometheus.Desc {
	return prometheus.NewDesc("ks_cache_events_total", "Events read of the kind, by their type.", []string{"gvr", "type"}, nil)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range figures() {
		ch <- f.desc()
	}
	ch <- eventsDesc()
	ch <- boundDesc()
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	if bound := c.options.MemoryBytes; bound > 0 {
		ch <- prometheus.MustNewConstMetric(boundDesc(), prometheus.GaugeValue, float64(bound))
	}
	conditions := c.Conditions()
	for _, f := range figures() {
		desc := f.desc()
		for i := range conditions {
			if k := &conditions[i]; f.shown == nil || f.shown(k) {
				ch <- prometheus.MustNewConstMetric(desc, f.kind, f.value(k), k.Name())
			}
		}
	}
	desc := eventsDesc()
	for _, k := range conditions {
		e := k.Events
		for _, of := range [...]struct {
			kind string
			n    uint64
		}{
			{"listed", e.Listed}, {"added", e.Added}, {"modified", e.Modified}, {"deleted", e.Deleted},
			{"bookmark", e.Bookmarks}, {"error", e.Errors},
		} {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(of.n), k.Name(), of.kind)
		}
	}
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
