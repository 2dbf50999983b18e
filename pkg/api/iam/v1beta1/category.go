package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Category is a heading that pages show role templates under.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Scope",type=string,JSONPath=`.metadata.labels.iam\.kubesphere\.io/scope`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Category struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the heading.
	// +optional
	Spec CategorySpec `json:"spec,omitempty"`
}

// CategorySpec is a heading by language.
type CategorySpec struct {
	// DisplayName is the name by language ("en", "zh").
	// +optional
	DisplayName map[string]string `json:"displayName,omitempty"`
	// Description is the description by language.
	// +optional
	Description map[string]string `json:"description,omitempty"`
	// Icon is the name or address of a picture.
	// +optional
	Icon string `json:"icon,omitempty"`
}

// CategoryList is a list of Categories.
//
// +kubebuilder:object:root=true
type CategoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Category `json:"items"`
}
