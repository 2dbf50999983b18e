package chart

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/boundedyaml"
)

// The names that a chart's own files have.
const (
	fileChart       = "Chart.yaml"
	fileExtension   = "extension.yaml"
	filePermissions = "permissions.yaml"
)

const (
	// maxDocument bounds a YAML file that describes a chart, in bytes.
	maxDocument = 1 << 20
)

// Metadata is what Chart.yaml says.
type Metadata struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Dependencies are the subcharts.
	Dependencies []Dependency `json:"dependencies,omitempty"`
}

// Dependency is a subchart, which is left out where its condition, or all its tags, are false in the values.
type Dependency struct {
	Name string   `json:"name"`
	Tags []string `json:"tags,omitempty"`
	// Condition is a list of paths in the values, with commas between them.
	Condition string `json:"condition,omitempty"`
}

// annotationHookImage begins the annotations of a chart that name images to be run before and after an operation.
const annotationHookImage = "executor-hook-image.kubesphere.io"

// HookImages returns the images that a chart wants to run before and after an operation, in order.
func (m *Metadata) HookImages() (out []string) {
	for key, image := range m.Annotations {
		if key == annotationHookImage || strings.HasPrefix(key, annotationHookImage+"/") {
			out = append(out, image)
		}
	}
	slices.Sort(out)
	return out
}

// HookImage returns the image that a chart wants to run before an action: its own, or else that of all actions; "" for none.
func (m *Metadata) HookImage(action string) string {
	return cmp.Or(m.Annotations[annotationHookImage+"/"+action], m.Annotations[annotationHookImage])
}

// Metadata returns what Chart.yaml says.
func (a *Archive) Metadata() (*Metadata, error) {
	out := &Metadata{}
	return out, a.document(fileChart, out)
}

// document reads a YAML file of the chart.
func (a *Archive) document(name string, into any) error {
	raw, ok := a.File(name)
	if !ok {
		return fmt.Errorf("the chart has no %s", name)
	}
	if len(raw) > maxDocument {
		return fmt.Errorf("%s has more than %d KiB", name, maxDocument>>10)
	}
	if err := boundedyaml.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s can't be read: %.300s", name, oneLine(err.Error()))
	}
	return nil
}
