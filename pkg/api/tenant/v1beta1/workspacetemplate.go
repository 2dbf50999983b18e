package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// WorkspaceTemplate is a workspace as it is to be in every cluster that it is placed in.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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
	Spec WorkspaceTemplateSpec `json:"spec,omitempty"`
	// Status is what was found.
	// +optional
	Status WorkspaceTemplateStatus `json:"status,omitzero"`
}

// WorkspaceTemplateSpec is a workspace and its places.
type WorkspaceTemplateSpec struct {
	// Template is the Workspace as it is to be.
	// +optional
	Template Template `json:"template,omitempty"`
	// Placement says in which clusters.
	// +optional
	Placement Placement `json:"placement,omitempty"`
	// Overrides are changes for single clusters that objects of older releases may hold. They are
	// kept as they came, and not acted upon.
	// +optional
	// +listType=atomic
	// +kubebuilder:pruning:PreserveUnknownFields
	Overrides []runtime.RawExtension `json:"overrides,omitempty"`
}

// Template is a Workspace without its name.
type Template struct {
	// ObjectMeta is the labels and annotations of the Workspace.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	ObjectMeta metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec is its specification.
	// +optional
	Spec WorkspaceSpec `json:"spec,omitempty"`
}

// Placement says in which clusters a workspace is: those that are named, else those that the
// selector finds. Naming none and selecting none, it is in none.
type Placement struct {
	// Clusters are the clusters by name. They win over the selector.
	// +optional
	// +listType=map
	// +listMapKey=name
	Clusters []PlacementCluster `json:"clusters,omitempty"`
	// ClusterSelector finds clusters by label; an empty one finds all.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
}

// PlacementCluster is one cluster that a workspace is placed in.
type PlacementCluster struct {
	// Name is the name of the Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// WorkspaceTemplateStatus is what was found of a template's workspaces.
type WorkspaceTemplateStatus struct {
	// Conditions say what works and what does not.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkspaceTemplateList is a list of WorkspaceTemplates.
//
// +kubebuilder:object:root=true
type WorkspaceTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkspaceTemplate `json:"items"`
}
