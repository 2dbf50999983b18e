package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// BuiltinRole is the pattern of a role that every workspace or namespace gets.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Scope",type=string,JSONPath=`.metadata.labels.iam\.kubesphere\.io/scope`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BuiltinRole struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// TargetSelector finds the workspaces or namespaces that get the role. Empty finds all.
	// +optional
	TargetSelector metav1.LabelSelector `json:"targetSelector,omitempty"`
	// Role is a WorkspaceRole or a Role, as it is to be made.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Role runtime.RawExtension `json:"role,omitempty"`
}

// BuiltinRoleList is a list of BuiltinRoles.
//
// +kubebuilder:object:root=true
type BuiltinRoleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BuiltinRole `json:"items"`
}
