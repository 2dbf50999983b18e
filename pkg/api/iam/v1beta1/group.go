package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// LabelGroupReference is carried by what names a group: bindings.
	LabelGroupReference = "iam.kubesphere.io/group-ref"
	// LabelGroupParent names a Group's parent.
	LabelGroupParent = "iam.kubesphere.io/group-parent"
	// FinalizerGroup keeps a deleted Group until its bindings are gone.
	FinalizerGroup = "finalizers.kubesphere.io/groups"
	// FinalizerGroupBinding keeps a deleted GroupBinding until its users have left the group.
	FinalizerGroupBinding = "finalizers.kubesphere.io/groupsbindings"
)

// Group is a set of users that bindings can name. All that is known of it is in its metadata.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Workspace",type=string,JSONPath=`.metadata.labels.kubesphere\.io/workspace`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || size(self.metadata.name) <= 63",optionalOldSelf=true,message="a group's name is at most 63 characters long, since labels refer to it"
type Group struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// GroupList is a list of Groups.
//
// +kubebuilder:object:root=true
type GroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Group `json:"items"`
}

// GroupBinding puts users in a group.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.groupRef.name`
// +kubebuilder:printcolumn:name="Users",type=string,JSONPath=`.users`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GroupBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// GroupRef is the group.
	// +optional
	GroupRef GroupRef `json:"groupRef,omitempty"`
	// Users are the names of its users.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Users []string `json:"users,omitempty"`
}

// GroupRef names a group.
type GroupRef struct {
	// APIGroup is the API group of Kind.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup,omitempty"`
	// Kind is Group.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// Name is the name of the group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('system:') && !self.startsWith('kapis:')",message="groups that begin with system: or kapis: can't be given to users"
	Name string `json:"name,omitempty"`
}

// GroupBindingList is a list of GroupBindings.
//
// +kubebuilder:object:root=true
type GroupBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GroupBinding `json:"items"`
}
