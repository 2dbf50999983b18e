package installplan

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// tagAgent is the tag of the subcharts that are for other clusters alone, and tagExtension that of those for the host.
const (
	tagAgent     = "agent"
	tagExtension = "extension"
)

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

// valuesOf returns the values of a release, as YAML: those of the plan, and over them what makes a chart install its part for this cluster,
// the hub or a member, and what the platform sets.
func valuesOf(plan *v1alpha1.InstallPlan, m *chart.Metadata, s *Settings, member bool) ([]byte, error) {
	values, err := parseValues(plan.Spec.Config)
	if err != nil {
		return nil, err
	}
	here, elsewhere := tagExtension, tagAgent
	if member {
		here, elsewhere = elsewhere, here
		set(values, map[string]any{"name": plan.Annotations[v1alpha1.AnnotationAgentCluster], "role": "member"}, "global", "clusterInfo")
	}
	set(values, true, "tags", here)
	set(values, false, "tags", elsewhere)
	for _, d := range m.Dependencies {
		if slices.Contains(d.Tags, elsewhere) && (!member || !slices.Contains(d.Tags, here)) {
			for _, condition := range strings.Split(d.Condition, ",") {
				if path := strings.Split(strings.TrimSpace(condition), "."); path[0] != "" {
					set(values, false, path...)
				}
			}
		}
	}
	if s.ImageRegistry != "" {
		set(values, s.ImageRegistry, "global", "imageRegistry")
	}
	if len(s.NodeSelector) > 0 {
		set(values, s.NodeSelector, "global", "nodeSelector")
	}
	if len(s.Ingress) > 0 {
		set(values, maps.Clone(s.Ingress), "global", "extension", "ingress")
	}
	if s.Portal != "" && !member {
		set(values, s.Portal, "global", "portal", "url")
	}
	out, err := yaml.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("write the values: %w", err)
	}
	return out, nil
}

// parseValues reads the configuration of a plan.
func parseValues(config string) (map[string]any, error) {
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(strings.TrimRight(config, " \t\r\n")), &values); err != nil {
		return nil, errors.New("the configuration is no YAML mapping: " + helm.Clip(err.Error(), 300))
	}
	if values == nil {
		values = map[string]any{}
	}
	return values, nil
}

// set sets a value in nested mappings. What is no mapping on the way is replaced.
func set(in map[string]any, value any, path ...string) {
	for _, key := range path[:len(path)-1] {
		next, ok := in[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			in[key] = next
		}
		in = next
	}
	in[path[len(path)-1]] = value
}

// configHash returns what existing installations note of a configuration: FNV-1a of 64 bits, in hexadecimal.
func configHash(config string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(config)) // it returns no error
	return fmt.Sprintf("%x", h.Sum64())
}
