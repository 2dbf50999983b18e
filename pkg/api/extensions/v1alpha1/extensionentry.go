package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ExtensionEntry are entries of the console's menus.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:storageversion
type ExtensionEntry struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ExtensionEntrySpec `json:"spec,omitempty"`
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Status Status `json:"status,omitempty"`
}

// ExtensionEntrySpec has the entries.
type ExtensionEntrySpec struct {
	// Entries are objects that the console's pages read: each has a name, and a link that is a path of the console or an https URL.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:pruning:PreserveUnknownFields
	Entries []runtime.RawExtension `json:"entries,omitempty"`
}

// ExtensionEntryList is a list of ExtensionEntries.
//
// +kubebuilder:object:root=true
type ExtensionEntryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ExtensionEntry `json:"items"`
}
