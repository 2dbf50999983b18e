package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// LabelExtension names the Extension that an object belongs to.
	LabelExtension = "kubesphere.io/extension-ref"
	// LabelCategory names the Category of an Extension and of its versions.
	LabelCategory = "kubesphere.io/category"
	// FinalizerExtension is what older installations keep a deleted Extension with.
	FinalizerExtension = "kubesphere.io/extension-protection"
)

// Locales is a text by language ("en", "zh"); "en" stands for the others.
type Locales map[string]string

// Extension is something that can be installed on the platform, in any of its versions.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Name",type=string,JSONPath=`.spec.displayName.en`
// +kubebuilder:printcolumn:name="Recommended",type=string,JSONPath=`.status.recommendedVersion`
// +kubebuilder:printcolumn:name="Highest",type=string,JSONPath=`.status.versions[0].version`
// +kubebuilder:printcolumn:name="Installed",type=string,JSONPath=`.status.installedVersion`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Extension struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what it is, as its highest version does.
	// +optional
	Spec ExtensionSpec `json:"spec,omitempty"`
	// Status is which versions there are, and which is installed. Pages read it of each Extension, so it is never absent.
	// +optional
	// +kubebuilder:default={}
	// +kubebuilder:pruning:PreserveUnknownFields
	Status ExtensionStatus `json:"status,omitempty"`
}

// ExtensionInfo is what people read of an extension.
type ExtensionInfo struct {
	// DisplayName is its name by language.
	// +optional
	DisplayName Locales `json:"displayName,omitempty"`
	// Description is what it does, by language.
	// +optional
	Description Locales `json:"description,omitempty"`
	// Icon is a URL, or the image itself as a data URL.
	// +optional
	// +kubebuilder:validation:MaxLength=524288
	Icon string `json:"icon,omitempty"`
	// Provider is who makes it, by language.
	// +optional
	Provider map[string]Provider `json:"provider,omitempty"`
	// Created is when its chart was packed.
	// +optional
	// +nullable
	Created *metav1.Time `json:"created,omitempty"`
}

// Provider is who makes an extension.
type Provider struct {
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Email string `json:"email,omitempty"`
}

// ExtensionSpec says what an extension is.
type ExtensionSpec struct {
	ExtensionInfo `json:",inline"`
}

// VersionInfo is a version of an extension, in the list of its Extension.
type VersionInfo struct {
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version"`
	// CreationTimestamp is when its chart was packed.
	// +optional
	// +nullable
	CreationTimestamp *metav1.Time `json:"creationTimestamp,omitempty"`
}

// ExtensionStatus is which versions of an extension there are, and what its InstallPlan says.
type ExtensionStatus struct {
	// State is that of the InstallPlan; empty where nothing is installed.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	State string `json:"state,omitempty"`
	// Enabled says whether it is in use.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// PlannedInstallVersion is the version that is to be installed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PlannedInstallVersion string `json:"plannedInstallVersion,omitempty"`
	// InstalledVersion is the version that is installed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	InstalledVersion string `json:"installedVersion,omitempty"`
	// RecommendedVersion is the highest version that suits this cluster and this platform.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	RecommendedVersion string `json:"recommendedVersion,omitempty"`
	// Versions are all versions, the highest first.
	// +optional
	// +kubebuilder:validation:MaxItems=4096
	Versions []VersionInfo `json:"versions,omitempty"`
	// ClusterSchedulingStatuses is the state of the agents by the name of their cluster.
	// +optional
	ClusterSchedulingStatuses map[string]InstallationStatus `json:"clusterSchedulingStatuses,omitempty"`
	// Conditions say what works.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ExtensionList is a list of Extensions.
//
// +kubebuilder:object:root=true
type ExtensionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Extension `json:"items"`
}

// InstallerGroupPrefix begins the group, kapis:extension:<name>, that the releases of an extension are applied in. Only
// ks-controller-manager asserts it; the groups that ks-apiserver asserts have the scope of a role in the place of "extension".
const InstallerGroupPrefix = "kapis:extension:"

// ExtensionNamespace returns the namespace that an extension has for itself, where its chart names no other one.
func ExtensionNamespace(extension string) string { return "extension-" + extension }
