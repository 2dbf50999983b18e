package v1alpha1

import (
	"cmp"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// maxZones bounds the zones in a status.
const maxZones = 100

// TopologyOf counts nodes, and returns the region that they are in ("" where they say none, or several) and their zones, sorted. Of each
// node it gets what returns the value of a label.
func TopologyOf(nodes iter.Seq[func(label string) string]) (count int, region string, zones []string) {
	several := false
	for label := range nodes {
		count++
		if r := label(corev1.LabelTopologyRegion); r != "" {
			several = several || region != "" && region != r
			region = r
		}
		z := label(corev1.LabelTopologyZone)
		if at, found := slices.BinarySearch(zones, z); z != "" && !found && len(zones) < maxZones {
			zones = slices.Insert(zones, at, z)
		}
	}
	if several {
		region = ""
	}
	return count, region, zones
}

// Place says how many nodes the cluster has, and where they are. What somebody wrote there stays where no node says it.
func (s *ClusterStatus) Place(nodes int, region string, zones []string) (changed bool) {
	before := *s
	s.NodeCount, s.Region = nodes, cmp.Or(region, s.Region)
	if len(zones) > 0 {
		s.Zones = zones
	}
	return before.NodeCount != s.NodeCount || before.Region != s.Region || !slices.Equal(before.Zones, s.Zones)
}
