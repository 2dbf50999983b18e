package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// requirement is a line of go.mod that requires a module: its path and version.
var requirement = regexp.MustCompile(`(?m)^(?:require |\t)(\S+) (v\S+)(?: // indirect)?$`)

// The modules that make test builds require one version of what they share, so that it is compiled once: Kubernetes takes minutes.
// tools/conformance is built apart, with what Kubernetes' own tests require.
func TestModulesShareVersions(t *testing.T) {
	type first struct{ module, version string }
	required := map[string]first{}
	for _, module := range []string{".", "tools/dev", "tools/logins", "tools/image", "tools/manifest", "tools/helm3"} {
		text, err := os.ReadFile(filepath.Join("../..", module, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		found := requirement.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Fatalf("go.mod of %s requires nothing", module)
		}
		for _, r := range found {
			path, version := r[1], r[2]
			other, ok := required[path]
			if !ok {
				required[path] = first{module, version}
			} else if other.version != version {
				t.Errorf("%s requires %s %s, and %s %s: go get the newer one in both", module, path, version, other.module, other.version)
			}
		}
	}
}
