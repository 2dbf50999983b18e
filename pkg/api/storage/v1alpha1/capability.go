package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CapabilityFeatures are what a driver can do. Each is stored as it is written.
type CapabilityFeatures struct {
	// Snapshot says what can be done with snapshots.
	// +optional
	Snapshot *apiextensionsv1.JSON `json:"snapshot,omitempty"`
	// Topology says whether volumes are near the pods that use them.
	// +optional
	Topology *apiextensionsv1.JSON `json:"topology,omitempty"`
	// Volume says what can be done with volumes.
	// +optional
	Volume *apiextensionsv1.JSON `json:"volume,omitempty"`
}

// StorageClassCapability is what can be done with volumes of the storage class of its name.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Provisioner",type=string,JSONPath=`.spec.provisioner`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type StorageClassCapability struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec StorageClassCapabilitySpec `json:"spec,omitempty"`
}

// StorageClassCapabilitySpec names the driver, and what it can do.
type StorageClassCapabilitySpec struct {
	// Provisioner is the driver of the class.
	// +optional
	Provisioner string `json:"provisioner,omitempty"`
	// +optional
	Features CapabilityFeatures `json:"features,omitempty"`
}

// StorageClassCapabilityList is a list of StorageClassCapabilities.
//
// +kubebuilder:object:root=true
type StorageClassCapabilityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []StorageClassCapability `json:"items"`
}

// ProvisionerCapability is what a driver can do, in all its storage classes.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Provisioner",type=string,JSONPath=`.spec.pluginInfo.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ProvisionerCapability struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ProvisionerCapabilitySpec `json:"spec,omitempty"`
}

// ProvisionerCapabilitySpec names the driver, and what it can do.
type ProvisionerCapabilitySpec struct {
	// PluginInfo is the driver.
	// +optional
	PluginInfo ProvisionerPluginInfo `json:"pluginInfo,omitempty"`
	// +optional
	Features CapabilityFeatures `json:"features,omitempty"`
}

// ProvisionerPluginInfo names a driver and its version.
type ProvisionerPluginInfo struct {
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Version string `json:"version,omitempty"`
}

// ProvisionerCapabilityList is a list of ProvisionerCapabilities.
//
// +kubebuilder:object:root=true
type ProvisionerCapabilityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ProvisionerCapability `json:"items"`
}
