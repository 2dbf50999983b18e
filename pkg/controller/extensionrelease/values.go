package extensionrelease

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/chart"
)

// tagAgent is the tag of the subcharts that are for other clusters alone, and tagExtension that of those for the host.
const tagAgent, tagExtension = "agent", "extension"

// Settings are the values that the platform sets in every release.
type Settings struct {
	// ImageRegistry is where images come from, and NodeSelector where pods run; both empty where charts decide.
	ImageRegistry string
	NodeSelector  map[string]string
	// Ingress is what charts build the addresses of their pages from.
	Ingress map[string]any
	// Portal is the address of the platform's console.
	Portal string
}

// Destination is where a release is. An agent's has a cluster, by its name and role, and what is over the values of the plan there.
type Destination struct {
	Agent                   bool
	Cluster, Role, Override string
}

// Values returns the values of a release, as YAML: those of a plan, and over them what makes a chart install its part for this cluster,
// the extension's own or its agent, and what the platform sets.
func Values(config string, m *chart.Metadata, s *Settings, to Destination) ([]byte, error) {
	values, err := chart.ParseValues(config)
	over, failed := chart.ParseValues(to.Override)
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	values = chart.MergeValues(values, over)
	here, elsewhere := tagExtension, tagAgent
	if to.Agent {
		here, elsewhere = elsewhere, here
		chart.SetValue(values, map[string]any{"name": to.Cluster, "role": to.Role}, "global", "clusterInfo")
	}
	chart.SetValue(values, true, "tags", here)
	chart.SetValue(values, false, "tags", elsewhere)
	for _, d := range m.Dependencies {
		if slices.Contains(d.Tags, elsewhere) && (!to.Agent || !slices.Contains(d.Tags, here)) {
			for _, condition := range strings.Split(d.Condition, ",") {
				if path := strings.Split(strings.TrimSpace(condition), "."); path[0] != "" {
					chart.SetValue(values, false, path...)
				}
			}
		}
	}
	if s.ImageRegistry != "" {
		chart.SetValue(values, s.ImageRegistry, "global", "imageRegistry")
	}
	if len(s.NodeSelector) > 0 {
		chart.SetValue(values, s.NodeSelector, "global", "nodeSelector")
	}
	if len(s.Ingress) > 0 {
		chart.SetValue(values, maps.Clone(s.Ingress), "global", "extension", "ingress")
	}
	if s.Portal != "" && !to.Agent {
		chart.SetValue(values, s.Portal, "global", "portal", "url")
	}
	out, err := yaml.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("write the values: %w", err)
	}
	return out, nil
}
