package idp_test

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/tools/hostile"
)

// A group of a provider is exactly one that it named, with the prefix: names are not cut, folded or joined, and no name
// becomes a system group.
func TestGroupsAreThoseThatTheProviderNames(t *testing.T) {
	kept := 0
	for seed := range uint64(2000) {
		g := hostile.New(seed)
		names, prefix := []string{g.Mixed("dev"), g.Word(), g.Word()}, g.One("", "corp:", "sys", "kap", " ")
		for _, group := range idp.Groups(names, prefix) {
			kept++
			name, ok := strings.CutPrefix(group, prefix)
			if !ok || !slices.Contains(names, name) {
				t.Errorf("%q with the prefix %q became %q", names, prefix, group)
			}
			if strings.HasPrefix(group, "system:") || strings.HasPrefix(group, "kapis:") || strings.TrimSpace(group) != group ||
				strings.ContainsFunc(group, unicode.IsControl) {
				t.Errorf("%q is a group", group)
			}
		}
	}
	if kept == 0 {
		t.Error("no group was kept")
	}
}
