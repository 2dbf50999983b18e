package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// InstallationMode says in which clusters an extension is installed.
//
// +kubebuilder:validation:Enum="";HostOnly;Multicluster
type InstallationMode string

// The modes.
const (
	// InstallationHostOnly is the host alone.
	InstallationHostOnly InstallationMode = "HostOnly"
	// InstallationMulticluster is the host, and an agent in each chosen cluster.
	InstallationMulticluster InstallationMode = "Multicluster"
)

const (
	// ConditionOrphaned says of an ExtensionVersion that its Repository has it no more; it stays while it is installed.
	ConditionOrphaned = "Orphaned"
	// ConditionChartRead says whether the chart of an ExtensionVersion could be read.
	ConditionChartRead = "ChartRead"
)

// ExtensionVersion is one version of an Extension, with the chart that installs it.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Extension",type=string,JSONPath=`.metadata.labels.kubesphere\.io/extension-ref`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.installationMode`
// +kubebuilder:printcolumn:name="Repository",type=string,JSONPath=`.spec.repository`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ExtensionVersion struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the chart says of itself, and where it is.
	// +optional
	Spec ExtensionVersionSpec `json:"spec,omitempty"`
	// Status says whether the chart could be read.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Status ExtensionVersionStatus `json:"status,omitempty"`
}

// ConfigMapKeyRef names a key of a ConfigMap.
type ConfigMapKeyRef struct {
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
	// +optional
	Optional *bool `json:"optional,omitempty"`
}

// ExternalDependency is another extension that one needs.
type ExternalDependency struct {
	// Name is that of the other extension.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Type is what it is; only extensions are known.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Type string `json:"type,omitempty"`
	// Version is the range of versions that suit.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`
	// Required says that nothing is installed without it.
	// +optional
	Required bool `json:"required,omitempty"`
}

// ExtensionVersionSpec is what a chart says of itself, and where it is.
type ExtensionVersionSpec struct {
	ExtensionInfo `json:",inline"`
	// Version is the semantic version.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// Category names the Category of pages.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Category string `json:"category,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=256
	Keywords []string `json:"keywords,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=256
	Sources []string `json:"sources,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Home string `json:"home,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Docs string `json:"docs,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=64
	Screenshots []string `json:"screenshots,omitempty"`
	// KubeVersion is the range of versions of Kubernetes that suit.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	KubeVersion string `json:"kubeVersion,omitempty"`
	// KSVersion is the range of versions of this platform that suit.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	KSVersion string `json:"ksVersion,omitempty"`
	// InstallationMode says in which clusters it is installed.
	// +optional
	InstallationMode InstallationMode `json:"installationMode,omitempty"`
	// Namespace is where it is installed, where that is not extension-<name>.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// ExternalDependencies are the extensions that it needs.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	ExternalDependencies []ExternalDependency `json:"externalDependencies,omitempty"`
	// Repository names the Repository it is from.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Repository string `json:"repository,omitempty"`
	// ChartURL is where the chart is.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	ChartURL string `json:"chartURL,omitempty"`
	// ChartDataRef is the ConfigMap that has the chart.
	// +optional
	ChartDataRef *ConfigMapKeyRef `json:"chartDataRef,omitempty"`
	// Digest is the SHA-256 of the chart, in hexadecimal.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Digest string `json:"digest,omitempty"`
}

// ExtensionVersionStatus says whether the chart could be read.
type ExtensionVersionStatus struct {
	// Digest is that of the chart that the rest of spec was read from.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Digest string `json:"digest,omitempty"`
	// Conditions say what works.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ExtensionVersionName returns the name of the ExtensionVersion of a version. The name of an extension has no dots, and a version has two,
// so that two never have one name.
func ExtensionVersionName(extension, version string) string { return extension + "-" + version }

// Is returns the extension that a version is of, and whether its name and its label agree on that.
func (v *ExtensionVersion) Is() (extension string, ok bool) {
	extension = v.Labels[LabelExtension]
	return extension, extension != "" && v.Name == ExtensionVersionName(extension, v.Spec.Version)
}

// ExtensionVersionList is a list of ExtensionVersions.
//
// +kubebuilder:object:root=true
type ExtensionVersionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExtensionVersion `json:"items"`
}
