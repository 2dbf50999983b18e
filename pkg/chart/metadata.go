package chart

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
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
	// maxRules bounds the rules that an extension asks for.
	maxRules = 1024
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

// Permissions are the rights that an extension asks for to be installed.
type Permissions struct {
	// Cluster are rules for all namespaces, and Namespace those for its own.
	Cluster, Namespace []rbacv1.PolicyRule
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

// Permissions returns what permissions.yaml asks for; nothing where the chart has no such file. The rules of all documents of a kind count.
func (a *Archive) Permissions() (*Permissions, error) {
	raw, ok := a.File(filePermissions)
	if !ok {
		return &Permissions{}, nil
	}
	if len(raw) > maxDocument {
		return nil, fmt.Errorf("%s has more than %d KiB", filePermissions, maxDocument>>10)
	}
	out := &Permissions{}
	documents := utilyaml.NewYAMLReader(newLines(raw))
	for n := 1; ; n++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: document %d can't be read", filePermissions, n)
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var role struct {
			Kind  string              `json:"kind"`
			Rules []rbacv1.PolicyRule `json:"rules"`
		}
		if err := boundedyaml.Unmarshal(text, &role); err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", filePermissions, n, boundedyaml.Why(err, "it is no YAML of a role"))
		}
		switch role.Kind {
		case "ClusterRole":
			out.Cluster = append(out.Cluster, role.Rules...)
		case "Role":
			out.Namespace = append(out.Namespace, role.Rules...)
		case "":
			if len(role.Rules) == 0 {
				continue // nothing but comments
			}
			fallthrough
		default:
			return nil, fmt.Errorf("%s: document %d has the kind %.100q: ClusterRole or Role is expected", filePermissions, n, role.Kind)
		}
		if len(out.Cluster)+len(out.Namespace) > maxRules {
			return nil, fmt.Errorf("%s has more than %d rules", filePermissions, maxRules)
		}
	}
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

// oneLine returns a text without line breaks, for conditions and logs.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Clip returns a text of a chart or an index as one line of UTF-8 with at most about most bytes: what they make this server say is bounded.
func Clip(s string, most int) string {
	s = oneLine(strings.ToValidUTF8(s, "?"))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// maxNamed bounds the entries of an index that LeftOut names, and maxReason what it says of each.
const maxNamed, maxReason = 10, 300

// LeftOut returns a text that says which entries of an index are left out, and why.
func LeftOut(bad []string) string {
	out := fmt.Sprintf("%d entries are left out", len(bad))
	for i, b := range bad[:min(len(bad), maxNamed)] {
		separator := "; "
		if i == 0 {
			separator = ": "
		}
		out += separator + Clip(b, maxReason)
	}
	return out
}

// CheckName returns an error if an extension can't have a name. Without dots in it, "<name>-<version>" means one extension and version.
func CheckName(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 || len(name) > maxExtensionName {
		return fmt.Errorf("the name %.100q is not that of an extension: it has lower case letters, digits and -, and at most %d of them",
			name, maxExtensionName)
	}
	return nil
}

const (
	// maxExtensionName leaves room for what the names of releases add.
	maxExtensionName = 53
	maxAgentName     = 47
)
