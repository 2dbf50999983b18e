package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

// WorkspaceTemplate is v1beta1.WorkspaceTemplate as older clients ask for it; the fields are the same.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=wst
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Manager",type=string,JSONPath=`.spec.template.spec.manager`
// +kubebuilder:printcolumn:name="Clusters",type=string,JSONPath=`.spec.placement.clusters[*].name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || size(self.metadata.name) <= 63",optionalOldSelf=true,message="a workspace's name is at most 63 characters long, since labels refer to it"
type WorkspaceTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the workspace and its places.
	// +optional
	Spec v1beta1.WorkspaceTemplateSpec `json:"spec,omitempty"`
	// Status is what was found.
	// +optional
	Status v1beta1.WorkspaceTemplateStatus `json:"status,omitzero"`
}

// WorkspaceTemplateList is a list of WorkspaceTemplates.
//
// +kubebuilder:object:root=true
type WorkspaceTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkspaceTemplate `json:"items"`
}
