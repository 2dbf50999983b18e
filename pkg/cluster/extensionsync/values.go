package extensionsync

import (
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/boundedyaml"
	"kapis.dev/ks-apiserver/pkg/chart"
)

// valuesOf returns the values for one member: those of the plan, and over them those of its override. Mappings are merged, everything else
// is replaced. No error quotes a value.
func valuesOf(config, override string) (string, error) {
	if strings.TrimSpace(override) == "" {
		return config, nil
	}
	base, over := map[string]any{}, map[string]any{}
	for _, x := range []struct {
		text string
		into *map[string]any
	}{{config, &base}, {override, &over}} {
		if boundedyaml.Unmarshal([]byte(strings.TrimRight(x.text, " \t\r\n")), x.into) != nil {
			return "", errors.New("the configuration, or the override for this cluster, is no YAML mapping")
		}
	}
	out, err := yaml.Marshal(chart.MergeValues(base, over))
	if err != nil {
		return "", fmt.Errorf("write the values: %w", err)
	}
	return string(out), nil
}
