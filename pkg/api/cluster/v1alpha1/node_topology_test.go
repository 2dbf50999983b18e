package v1alpha1_test

import (
	"fmt"
	"slices"
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
)

func TestTopologyOfNodes(t *testing.T) {
	many := make([]map[string]string, 300)
	for i := range many {
		many[i] = map[string]string{"topology.kubernetes.io/zone": fmt.Sprintf("z%03d", i)}
	}
	in := func(region, zone string) map[string]string {
		return map[string]string{"topology.kubernetes.io/region": region, "topology.kubernetes.io/zone": zone, "other": "x"}
	}
	for name, c := range map[string]struct {
		nodes  []map[string]string
		region string
		zones  []string
	}{
		"none":            {},
		"without labels":  {nodes: []map[string]string{nil, {}}},
		"one region":      {nodes: []map[string]string{in("r", "b"), {}, in("r", "a"), in("r", "b")}, region: "r", zones: []string{"a", "b"}},
		"several regions": {nodes: []map[string]string{in("r", "a"), in("s", "b"), in("r", "a")}, zones: []string{"a", "b"}},
	} {
		count, region, zones := v1alpha1.TopologyOf(func(yield func(func(string) string) bool) {
			for _, labels := range c.nodes {
				if !yield(func(label string) string { return labels[label] }) {
					return
				}
			}
		})
		if count != len(c.nodes) || region != c.region || !slices.Equal(zones, c.zones) {
			t.Errorf("%s: got %d, %q, %q, want %d, %q, %q", name, count, region, zones, len(c.nodes), c.region, c.zones)
		}
	}
	count, _, zones := v1alpha1.TopologyOf(func(yield func(func(string) string) bool) {
		for _, labels := range many {
			if !yield(func(label string) string { return labels[label] }) {
				return
			}
		}
	})
	if count != 300 || len(zones) != 100 {
		t.Errorf("got %d nodes in %d zones, want 300 in 100, which are the most", count, len(zones))
	}
}
