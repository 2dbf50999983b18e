package v1beta1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SystemWorkspace is the workspace of the namespaces that the system itself needs.
const SystemWorkspace = "system-workspace"

// IsSystemNamespace tells by its name whether a namespace is the system's, or kept for it: default, kubesphere, and those that begin with
// kube- or kubesphere-. The policies in config/install/admission.yaml have the same list. What is in SystemWorkspace is the system's, too.
func IsSystemNamespace(name string) bool {
	return name == metav1.NamespaceDefault || name == "kubesphere" || strings.HasPrefix(name, "kube-") ||
		strings.HasPrefix(name, "kubesphere-")
}

// IsReservedNamespace tells by its name whether members of workspaces can't create a namespace: those of the system and of extensions, and
// svc, in which the search lists of pods look for shop.extension-shop.svc before they look in extension-shop. The policy
// birth.namespaces.kapis.dev in config/install/admission.yaml has the same list.
func IsReservedNamespace(name string) bool {
	return IsSystemNamespace(name) || name == "svc" || strings.HasPrefix(name, "extension-")
}

// Workspace is a set of namespaces with members and roles of its own, in one cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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
	Spec WorkspaceSpec `json:"spec,omitempty"`
	// Status is what was found.
	// +optional
	Status WorkspaceStatus `json:"status,omitzero"`
}

// WorkspaceSpec is what is asked for of a workspace.
type WorkspaceSpec struct {
	// Manager names the User who runs the workspace.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Manager string `json:"manager,omitempty"`
}

// WorkspaceStatus is what was found of a workspace.
type WorkspaceStatus struct {
	// Conditions say what works and what does not.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkspaceList is a list of Workspaces.
//
// +kubebuilder:object:root=true
type WorkspaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Workspace `json:"items"`
}
