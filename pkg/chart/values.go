package chart

import (
	"fmt"
	"hash/fnv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/boundedyaml"
)

// ParseValues reads values of a chart, which are a YAML mapping, or nothing.
func ParseValues(text string) (map[string]any, error) {
	values := map[string]any{}
	if err := boundedyaml.Unmarshal([]byte(strings.TrimRight(text, " \t\r\n")), &values); err != nil {
		return nil, fmt.Errorf("the configuration is no YAML mapping: %.300s", err.Error())
	}
	if values == nil {
		values = map[string]any{}
	}
	return values, nil
}

// MergeValues puts values over others, and returns the result: mappings are merged, everything else is replaced. It changes base.
func MergeValues(base, over map[string]any) map[string]any {
	if base == nil {
		base = map[string]any{}
	}
	for k, v := range over {
		below, isMap := v.(map[string]any)
		if of, ok := base[k].(map[string]any); ok && isMap {
			v = MergeValues(of, below)
		}
		base[k] = v
	}
	return base
}

// SetValue sets a value in nested mappings. What is no mapping on the way is replaced.
func SetValue(in map[string]any, value any, path ...string) {
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

// ConfigHash returns what existing installations note of a configuration: FNV-1a of 64 bits, in hexadecimal.
func ConfigHash(config string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(config)) // it returns no error
	return fmt.Sprintf("%x", h.Sum64())
}
