package kit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/chart"
)

// The names of files of a chart.
const (
	fileChart       = "Chart.yaml"
	fileExtension   = "extension.yaml"
	filePermissions = "permissions.yaml"
	fileValues      = "values.yaml"
	fileSchema      = "values.schema.json"
)

// Open reads the chart of an extension: a packed one, the folder of one, or the folder of a project. A folder has the Chart.yaml that is
// made of its extension.yaml, unless it has one.
func Open(path string) (*chart.Archive, error) {
	is, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the extension: %w", err)
	}
	if !is.IsDir() {
		raw, err := readFile(path, chart.MaxArchive)
		if err != nil {
			return nil, err
		}
		return chart.Read(raw)
	}
	if _, err := os.Stat(filepath.Join(path, fileExtension)); errors.Is(err, fs.ErrNotExist) {
		path = filepath.Join(path, ChartFolder)
		if _, err := os.Stat(filepath.Join(path, fileExtension)); err != nil {
			return nil, fmt.Errorf("neither %s nor %s has an %s: name the folder that has it", filepath.Dir(path), path, fileExtension)
		}
	}
	a, err := chart.ReadFolder(path)
	if err != nil {
		return nil, err
	}
	return withMetadata(a)
}

// readFile reads a file of at most so many bytes.
func readFile(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("it has more than %d KiB", most>>10)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return raw, nil
}

// metadata is what Chart.yaml says of an extension. The range of versions of Kubernetes is left out: Helm takes the names that
// distributions give to their builds for pre-releases, which hardly any range allows.
type metadata struct {
	APIVersion   string            `json:"apiVersion"`
	Name         string            `json:"name"`
	Version      string            `json:"version"`
	Type         string            `json:"type"`
	Description  string            `json:"description,omitempty"`
	Home         string            `json:"home,omitempty"`
	Sources      []string          `json:"sources,omitempty"`
	Keywords     []string          `json:"keywords,omitempty"`
	Maintainers  []map[string]any  `json:"maintainers,omitempty"`
	Dependencies []map[string]any  `json:"dependencies,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
}

// withMetadata returns a chart with a Chart.yaml. Where extension.yaml can't be read there is none: the server says so in the same words.
func withMetadata(a *chart.Archive) (*chart.Archive, error) {
	raw, ok := a.File(fileExtension)
	if _, has := a.File(fileChart); has || !ok {
		return a, nil
	}
	var is struct {
		chart.Extension
		Maintainers  []map[string]any `json:"maintainers"`
		Dependencies []map[string]any `json:"dependencies"`
	}
	if err := yaml.Unmarshal(raw, &is); err != nil {
		return nil, fmt.Errorf("%s can't be read: %s", fileExtension, strings.Join(strings.Fields(err.Error()), " "))
	}
	for _, d := range is.Dependencies { // Helm drops a subchart without a range
		if version, _ := d["version"].(string); version == "" {
			d["version"] = ">=0.0.0-0"
		}
	}
	text, err := yaml.Marshal(metadata{APIVersion: "v2", Name: is.Name, Version: is.Version, Type: "application",
		Description: is.Description["en"], Home: is.Home, Sources: is.Sources, Keywords: is.Keywords,
		Maintainers: is.Maintainers, Dependencies: is.Dependencies, Annotations: is.Annotations})
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", fileChart, err)
	}
	return a.With(fileChart, text), nil
}
