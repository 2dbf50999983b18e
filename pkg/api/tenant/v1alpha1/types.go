package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

// Workspace is v1beta1.Workspace as older clients ask for it; the fields are the same.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=ws
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Manager",type=string,JSONPath=`.spec.manager`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || size(self.metadata.name) <= 63",optionalOldSelf=true,message="a workspace's name is at most 63 characters long, since labels refer to it"
type Workspace struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is asked for.
	// +optional
	Spec v1beta1.WorkspaceSpec `json:"spec,omitempty"`
	// Status is what was found.
	// +optional
	Status v1beta1.WorkspaceStatus `json:"status,omitzero"`
}

// WorkspaceList is a list of Workspaces.
//
// +kubebuilder:object:root=true
type WorkspaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Workspace `json:"items"`
}
