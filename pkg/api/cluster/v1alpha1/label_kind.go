package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Label is a key and a value that are put on clusters by people.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Key",type=string,JSONPath=`.spec.key`
// +kubebuilder:printcolumn:name="Value",type=string,JSONPath=`.spec.value`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Label struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the label and where it is.
	// +optional
	Spec LabelSpec `json:"spec,omitempty"`
}

// LabelSpec is a label and where it is.
type LabelSpec struct {
	// Key is the key.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key"`
	// Value is the value.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Value string `json:"value,omitempty"`
	// BackgroundColor is the colour that pages show it in.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BackgroundColor string `json:"backgroundColor,omitempty"`
	// Clusters are the names of the clusters that carry it.
	// +optional
	// +listType=atomic
	Clusters []string `json:"clusters,omitempty"`
}

// LabelList is a list of Labels.
//
// +kubebuilder:object:root=true
type LabelList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Label `json:"items"`
}
