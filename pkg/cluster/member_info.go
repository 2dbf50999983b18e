package cluster

import (
	"maps"
	"slices"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// About is what a member says of itself while it is linked.
type About struct {
	// Version is that of this software there, and KubernetesVersion that of its kube-apiserver.
	Version           string `json:"version"`
	KubernetesVersion string `json:"kubernetesVersion"`
	// Nodes is how many nodes it has, and Region and Zones are where they are.
	Nodes  int      `json:"nodes,omitempty"`
	Region string   `json:"region,omitempty"`
	Zones  []string `json:"zones,omitempty"`
	// Configz is which of its optional parts are on; nil where it does not say.
	Configz map[string]bool `json:"configz,omitempty"`
}

// Equal reports whether a member says the same.
func (a *About) Equal(b *About) bool {
	return a.Version == b.Version && a.KubernetesVersion == b.KubernetesVersion && a.Nodes == b.Nodes && a.Region == b.Region &&
		slices.Equal(a.Zones, b.Zones) && maps.Equal(a.Configz, b.Configz)
}

// SetNodes counts the nodes of a cluster, and says where they are.
func (a *About) SetNodes(nodes *index.Snapshot) {
	a.Nodes, a.Region, a.Zones = clusterv1alpha1.TopologyOf(func(yield func(func(string) string) bool) {
		nodes.ByName(index.All()).Walk(0, false, func(ref *index.Ref) bool {
			labels := nodes.Record(ref).Labels
			return yield(func(label string) string { v, _ := labels.Get(label); return v })
		})
	})
}

// SetAbout says what a member says of itself.
func (m *Member) SetAbout(a About) {
	t := &m.state.sync
	t.mu.Lock()
	differs := !t.about.Equal(&a)
	t.about = a
	t.mu.Unlock()
	if differs {
		m.state.members.syncChanged(m.UID)
	}
}

// About returns what a member has said of itself to this replica; empty for nothing yet.
func (m *Member) About() About {
	t := &m.state.sync
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.about
}
