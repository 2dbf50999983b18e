package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AnnotationCount on a Category is how many Extensions are in it.
const AnnotationCount = "kubesphere.io/count"

// Category is a heading that pages show Extensions under.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Extensions",type=string,JSONPath=`.metadata.annotations.kubesphere\.io/count`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Category struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the name, for people.
	// +optional
	Spec CategorySpec `json:"spec,omitempty"`
}

// CategorySpec is what people call a category.
type CategorySpec struct {
	// DisplayName is the name by language ("en", "zh").
	// +optional
	DisplayName Locales `json:"displayName,omitempty"`
	// Description is the description by language.
	// +optional
	Description Locales `json:"description,omitempty"`
	// Icon is a URL, or the image itself as a data URL.
	// +optional
	// +kubebuilder:validation:MaxLength=524288
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
