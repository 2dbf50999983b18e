package boundedyaml_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unbounded are the files that read YAML by the parser itself, and why no stranger has written that.
var unbounded = map[string]string{
	"api/internal/crdtest/crdtest.go":        "tests read definitions of this repository",
	"audit/bodyredaction/redact.go":          "a body with an anchor and an alias is left out before",
	"boundedyaml/boundedyaml.go":             "it has looked before",
	"cluster/deployment/member_manifest.go":  "objects of this repository",
	"config/load.go":                         "the program's own configuration",
	"controller/configsecret/webhook.go":     "Secrets of kubesphere-system, which administrators write",
	"controller/defaults/default_objects.go": "objects of this repository",
	"admission/shipped/shipped_roles.go":     "objects of this repository",
	"extension/kit/chart_loader.go":          "a file of who runs the program",
	"extension/kit/lint.go":                  "a file of who runs the program",
	"gateway/load_template.go":               "a ConfigMap of kubesphere-system, which administrators write",
	"idp/definition.go":                      "Secrets of kubesphere-system, which administrators write",
	"idp/settings.go":                        "Secrets of kubesphere-system, which administrators write",
	"oauth/client/client.go":                 "Secrets of kubesphere-system, which administrators write",
	"setting/config_secret.go":               "ConfigMaps of kubesphere-system, which administrators write",
}

var reads = regexp.MustCompile(`(^|[^.\w])yaml\.(Unmarshal|UnmarshalStrict|YAMLToJSON|YAMLToJSONStrict)\(`)

// Whatever reads YAML reads it by this package, or is known to read nobody else's.
func TestWhoReadsYAMLWithoutABoundIsKnown(t *testing.T) { // S56
	var found []string
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && reads.Match(text) {
			found = append(found, filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator))))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range found {
		if unbounded[file] == "" {
			t.Errorf("pkg/%s reads YAML without a bound: use this package", file)
		}
	}
	for file := range unbounded {
		if !slices.Contains(found, file) {
			t.Errorf("pkg/%s reads no YAML without a bound any more", file)
		}
	}
}
