package appstore

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"

	"github.com/Masterminds/semver/v3"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/boundedyaml"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/status"
)

// Bounds of what is read of a package.
const (
	maxChartYAML  = 256 << 10
	maxDocuments  = 1000
	maxResources  = 256
	maxText       = 4096
	maxMaintainer = 32
	maxNameLength = 128
)

// FileYAML is the name of the one file of an application that is no chart.
const FileYAML = "all.yaml"

const fileChart = "Chart.yaml"

// Package is what the package of a version says of it.
type Package struct {
	Name, Version, Home, Description, Icon string
	Maintainers                            []v2.Maintainer
	// Resources are the kinds that the package defines.
	Resources []v2.Resource
	// Files are the files of a chart, nil for what is none.
	Files []chart.File
}

// chartYAML is what Chart.yaml says.
type chartYAML struct {
	Name        string          `json:"name"`
	Version     string          `json:"version"`
	Home        string          `json:"home"`
	Description string          `json:"description"`
	Icon        string          `json:"icon"`
	Maintainers []v2.Maintainer `json:"maintainers"`
}

var chartName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// ReadChart reads a Helm chart. An error says what is wrong with it.
func ReadChart(raw []byte) (*Package, error) {
	archive, err := chart.Read(raw)
	if err != nil {
		return nil, err
	}
	text, ok := archive.File(fileChart)
	switch {
	case !ok:
		return nil, fmt.Errorf("the chart has no %s", fileChart)
	case len(text) > maxChartYAML:
		return nil, fmt.Errorf("%s has more than %d KiB", fileChart, maxChartYAML>>10)
	}
	is := &chartYAML{}
	if err := boundedyaml.Unmarshal(text, is); err != nil {
		return nil, fmt.Errorf("%s: %w", fileChart, boundedyaml.Why(err, "it is no YAML of a chart"))
	}
	if err := CheckName(is.Name); err != nil {
		return nil, fmt.Errorf("%s: %w", fileChart, err)
	}
	if _, err := semver.NewVersion(is.Version); err != nil || len(is.Version) > maxNameLength {
		return nil, fmt.Errorf("%s: version is %.100q, which is no semantic version such as 1.0.0", fileChart, is.Version)
	}
	out := &Package{Name: is.Name, Version: is.Version, Home: cut(is.Home), Description: cut(is.Description), Icon: is.Icon,
		Maintainers: is.Maintainers[:min(len(is.Maintainers), maxMaintainer)], Files: archive.Files}
	for _, f := range archive.Files {
		if path.Dir(f.Name) != "crds" || path.Ext(f.Name) != ".yaml" && path.Ext(f.Name) != ".yml" {
			continue
		}
		if err := definitions(f, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// CheckName returns why a text can't be the name of an application, or nil.
func CheckName(name string) error {
	if len(name) > maxNameLength || !chartName.MatchString(name) {
		return fmt.Errorf("the name %.100q is not one of an application: letters, digits, -, _ and . up to %d", name, maxNameLength)
	}
	return nil
}

// definitions adds the kinds that a file defines.
func definitions(f chart.File, out *Package) error {
	return documents(f.Data, f.Name, func(text []byte) error {
		var d struct {
			Kind string `json:"kind"`
			Spec struct {
				Group string `json:"group"`
				Names struct {
					Plural string `json:"plural"`
					Kind   string `json:"kind"`
				} `json:"names"`
				Versions []struct {
					Name    string `json:"name"`
					Storage bool   `json:"storage"`
				} `json:"versions"`
			} `json:"spec"`
		}
		if err := boundedyaml.Unmarshal(text, &d); err != nil {
			return boundedyaml.Why(err, "it is no YAML of a kind")
		}
		if d.Kind != "CustomResourceDefinition" {
			return nil
		}
		for _, v := range d.Spec.Versions {
			if !v.Storage {
				continue
			}
			if len(out.Resources) == maxResources {
				return fmt.Errorf("the chart defines more than %d kinds", maxResources)
			}
			out.Resources = append(out.Resources, v2.Resource{Group: cut(d.Spec.Group), Version: cut(v.Name), Resource: cut(d.Spec.Names.Plural),
				Name: cut(d.Spec.Names.Kind)})
		}
		return nil
	})
}

// CheckYAML returns why a text is not the YAML of some objects, or nil.
func CheckYAML(raw []byte) error {
	n := 0
	err := documents(raw, FileYAML, func(text []byte) error {
		var o struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Metadata   struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := boundedyaml.Unmarshal(text, &o); err != nil {
			return boundedyaml.Why(err, "it is no YAML")
		}
		if o.APIVersion == "" && o.Kind == "" && o.Metadata.Name == "" {
			var any any
			if err := boundedyaml.Unmarshal(text, &any); err == nil && any == nil {
				return nil // nothing but comments
			}
		}
		if o.APIVersion == "" || o.Kind == "" || o.Metadata.Name == "" {
			return errors.New("an object has an apiVersion, a kind and a metadata.name")
		}
		n++
		return nil
	})
	if err == nil && n == 0 {
		err = errors.New("the package has no objects")
	}
	return err
}

// documents calls do for each document of a YAML file.
func documents(raw []byte, name string, do func([]byte) error) error {
	all := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	for n := 1; ; n++ {
		text, err := all.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%.200s: document %d can't be read", name, n)
		case n > maxDocuments:
			return fmt.Errorf("%.200s has more than %d documents", name, maxDocuments)
		case len(bytes.TrimSpace(text)) == 0:
			continue
		}
		if err := do(text); err != nil {
			return fmt.Errorf("%.200s: document %d: %w", name, n, err)
		}
	}
}

func cut(text string) string { return status.Clip(text, maxText) }
