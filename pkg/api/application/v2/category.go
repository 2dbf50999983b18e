package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Category is a category of the store.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=appctg
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.total`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Category struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec CategorySpec `json:"spec,omitempty"`
	// +optional
	Status CategoryStatus `json:"status,omitempty"`
}

// CategorySpec is what pages show of a category, besides its annotations.
type CategorySpec struct {
	// +optional
	Icon string `json:"icon,omitempty"`
}

// CategoryStatus has how many applications a category has.
type CategoryStatus struct {
	// +optional
	Total int `json:"total,omitempty"`
}

// CategoryList is a list of Categories.
//
// +kubebuilder:object:root=true
type CategoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Category `json:"items"`
}
