package store

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"kapis.dev/ks-apiserver/pkg/store/storetest"
)

// metricsOf returns the values of a kind by the names of metrics, with the type of events after the name.
func metricsOf(t *testing.T, g prometheus.Gatherer, gvr string) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["gvr"] != gvr {
				continue
			}
			value := m.GetGauge().GetValue()
			if f.GetType().String() == "COUNTER" {
				value = m.GetCounter().GetValue()
			}
			out[strings.TrimSuffix(f.GetName()+"/"+labels["type"], "/")] = value
		}
	}
	return out
}

func TestMetricsTellWhatHappened(t *testing.T) {
	srv := newServer(t)
	srv.put(podsPath, storetest.Pod("a", "one"))
	registry := prometheus.NewPedanticRegistry()
	st := newStore(t, srv, func(o *Options) { o.Registerer = registry })
	serves(t, st, "[a/one]")
	if _, there := metricsOf(t, registry, "v1/pods")["ks_cache_last_error_age_seconds"]; there {
		t.Error("the age of an error, and there was none")
	}
	srv.put(podsPath, storetest.Pod("a", "one", `"app":"b"`))
	srv.put(podsPath, storetest.Pod("a", "two"))
	srv.remove(podsPath, "a/one")
	serves(t, st, "[a/two]")
	srv.cut(podsPath, 0)
	eventually(t, "another watch", func() bool { return condition(st, podsGVR).Restarts == 1 })
	srv.cut(podsPath, http.StatusGone)
	eventually(t, "another list", func() bool { return condition(st, podsGVR).Resyncs == 1 })
	snap, err := st.Snapshot(context.Background(), podsGVR)
	if err != nil {
		t.Fatal(err)
	}
	got := metricsOf(t, registry, "v1/pods")
	for name, want := range map[string]float64{
		"informers": 1, "synced": 1, "failing": 0, "objects": 1, "bytes": float64(snap.Bytes()), "resyncs_total": 1, "watch_restarts_total": 2,
		"events_total/added": 3, "events_total/modified": 1, "events_total/deleted": 1, "events_total/error": 1, "events_total/listed": 0,
	} {
		if value, there := got["ks_cache_"+name]; !there || value != want {
			t.Errorf("ks_cache_%s is %v, want %v", name, value, want)
		}
	}
	for _, name := range []string{"generation_age_seconds", "lag_seconds", "last_error_age_seconds", "events_total/bookmark"} {
		if value, there := got["ks_cache_"+name]; !there || value < 0 {
			t.Errorf("ks_cache_%s is %v", name, value)
		}
	}
}
