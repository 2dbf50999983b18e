package chart

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// Extension is what extension.yaml says.
type Extension struct {
	Name                 string                        `json:"name"`
	Version              string                        `json:"version"`
	DisplayName          v1alpha1.Locales              `json:"displayName,omitempty"`
	Description          v1alpha1.Locales              `json:"description,omitempty"`
	Icon                 string                        `json:"icon,omitempty"`
	Provider             map[string]v1alpha1.Provider  `json:"provider,omitempty"`
	Category             string                        `json:"category,omitempty"`
	Keywords             []string                      `json:"keywords,omitempty"`
	Home                 string                        `json:"home,omitempty"`
	Docs                 string                        `json:"docs,omitempty"`
	Sources              []string                      `json:"sources,omitempty"`
	KubeVersion          string                        `json:"kubeVersion,omitempty"`
	KSVersion            string                        `json:"ksVersion,omitempty"`
	Screenshots          []string                      `json:"screenshots,omitempty"`
	InstallationMode     v1alpha1.InstallationMode     `json:"installationMode,omitempty"`
	Namespace            string                        `json:"namespace,omitempty"`
	ExternalDependencies []v1alpha1.ExternalDependency `json:"externalDependencies,omitempty"`
	Annotations          map[string]string             `json:"annotations,omitempty"`
}

const (
	// maxExtensionName leaves room for what the names of releases add.
	maxExtensionName = 53
	maxAgentName     = 47
)

// Extension returns what extension.yaml says, checked: the name and the version are those of Chart.yaml, and every range can be read.
func (a *Archive) Extension() (*Extension, error) {
	is, err := a.Metadata()
	if err != nil {
		return nil, err
	}
	out := &Extension{}
	if err := a.document(fileExtension, out); err != nil {
		return nil, err
	}
	if out.Name != is.Name {
		return nil, fmt.Errorf("%s: name is %.100q, and %.100q in %s", fileExtension, out.Name, is.Name, fileChart)
	}
	if out.Version != is.Version {
		return nil, fmt.Errorf("%s: version is %.100q, and %.100q in %s", fileExtension, out.Version, is.Version, fileChart)
	}
	if err := out.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", fileExtension, err)
	}
	return out, nil
}

func (e *Extension) check() error {
	if err := CheckName(e.Name); err != nil {
		return err
	}
	if err := CheckVersion(e.Version); err != nil {
		return err
	}
	switch e.InstallationMode {
	case "", v1alpha1.InstallationHostOnly:
	case v1alpha1.InstallationMulticluster:
		if len(e.Name) > maxAgentName {
			return fmt.Errorf("name has %d letters: one that has agents in other clusters has at most %d", len(e.Name), maxAgentName)
		}
	default:
		return fmt.Errorf("installationMode is %.100q: HostOnly or Multicluster is expected", e.InstallationMode)
	}
	if e.Namespace != "" && len(validation.IsDNS1123Label(e.Namespace)) > 0 {
		return fmt.Errorf("namespace is %.100q, which is no name of a namespace", e.Namespace)
	}
	if e.Category != "" && len(validation.IsValidLabelValue(e.Category)) > 0 {
		return fmt.Errorf("category is %.100q, which can't be the value of a label", e.Category)
	}
	for _, r := range []struct{ field, text string }{{"kubeVersion", e.KubeVersion}, {"ksVersion", e.KSVersion}} {
		if err := checkRange(r.text); err != nil {
			return fmt.Errorf("%s: %w", r.field, err)
		}
	}
	for i, d := range e.ExternalDependencies {
		if err := checkRange(d.Version); err != nil {
			return fmt.Errorf("externalDependencies[%d].version: %w", i, err)
		}
	}
	return nil
}

// CheckName returns an error if an extension can't have a name. Without dots in it, "<name>-<version>" means one extension and version.
func CheckName(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 || len(name) > maxExtensionName {
		return fmt.Errorf("the name %.100q is not that of an extension: it has lower case letters, digits and -, and at most %d of them",
			name, maxExtensionName)
	}
	return nil
}
