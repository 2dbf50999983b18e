package v1beta1

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Finalizers of bindings.
const (
	// FinalizerGlobalRoleBinding keeps a deleted GlobalRoleBinding until its copies are gone.
	FinalizerGlobalRoleBinding = "finalizers.kubesphere.io/globalrolebindings"
	// FinalizerWorkspaceRoleBinding keeps a deleted WorkspaceRoleBinding until its copies are gone.
	FinalizerWorkspaceRoleBinding = "finalizers.kubesphere.io/workspacerolebindings"
)

// LabelServiceAccountReference is carried by bindings of a service account.
const LabelServiceAccountReference = "iam.kubesphere.io/serviceaccount-ref"

// The kinds that roleRef names.
const (
	KindGlobalRole    = "GlobalRole"
	KindWorkspaceRole = "WorkspaceRole"
	KindClusterRole   = "ClusterRole"
	KindRole          = "Role"
)

// GlobalRoleBinding gives a GlobalRole to subjects.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster,shortName=grb
// +kubebuilder:printcolumn:name="Role",type=string,JSONPath=`.roleRef.name`
// +kubebuilder:printcolumn:name="Subjects",type=string,JSONPath=`.subjects[*].name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GlobalRoleBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Subjects are who gets the role. Absent, nobody does.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:XValidation:rule="self.kind in ['User', 'Group', 'ServiceAccount'] && self.name != ''",message="a subject is a User, a Group or a ServiceAccount, and has a name"
	// +kubebuilder:validation:items:XValidation:rule="!self.name.startsWith('kapis:')",message="no binding may name a subject that begins with kapis:"
	Subjects []rbacv1.Subject `json:"subjects,omitempty"`
	// RoleRef is the role, a GlobalRole.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.kind == 'GlobalRole' && self.name != ''",message="roleRef names a GlobalRole"
	RoleRef rbacv1.RoleRef `json:"roleRef"`
}

// GlobalRoleBindingList is a list of GlobalRoleBindings.
//
// +kubebuilder:object:root=true
type GlobalRoleBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GlobalRoleBinding `json:"items"`
}

// WorkspaceRoleBinding gives a WorkspaceRole to subjects; the label kubesphere.io/workspace names the workspace.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster,shortName=wsrb
// +kubebuilder:printcolumn:name="Workspace",type=string,JSONPath=`.metadata.labels.kubesphere\.io/workspace`
// +kubebuilder:printcolumn:name="Role",type=string,JSONPath=`.roleRef.name`
// +kubebuilder:printcolumn:name="Subjects",type=string,JSONPath=`.subjects[*].name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WorkspaceRoleBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Subjects are who gets the role. Absent, nobody does.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:XValidation:rule="self.kind in ['User', 'Group', 'ServiceAccount'] && self.name != ''",message="a subject is a User, a Group or a ServiceAccount, and has a name"
	// +kubebuilder:validation:items:XValidation:rule="!self.name.startsWith('kapis:')",message="no binding may name a subject that begins with kapis:"
	Subjects []rbacv1.Subject `json:"subjects,omitempty"`
	// RoleRef is the role, a WorkspaceRole.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.kind == 'WorkspaceRole' && self.name != ''",message="roleRef names a WorkspaceRole"
	RoleRef rbacv1.RoleRef `json:"roleRef"`
}

// WorkspaceRoleBindingList is a list of WorkspaceRoleBindings.
//
// +kubebuilder:object:root=true
type WorkspaceRoleBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkspaceRoleBinding `json:"items"`
}

// ClusterRoleBinding gives a ClusterRole to subjects.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Role",type=string,JSONPath=`.roleRef.name`
// +kubebuilder:printcolumn:name="Subjects",type=string,JSONPath=`.subjects[*].name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterRoleBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Subjects are who gets the role. Absent, nobody does.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:XValidation:rule="self.kind in ['User', 'Group', 'ServiceAccount'] && self.name != ''",message="a subject is a User, a Group or a ServiceAccount, and has a name"
	// +kubebuilder:validation:items:XValidation:rule="!self.name.startsWith('kapis:')",message="no binding may name a subject that begins with kapis:"
	Subjects []rbacv1.Subject `json:"subjects,omitempty"`
	// RoleRef is the role, a ClusterRole.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.kind == 'ClusterRole' && self.name != ''",message="roleRef names a ClusterRole"
	RoleRef rbacv1.RoleRef `json:"roleRef"`
}

// ClusterRoleBindingList is a list of ClusterRoleBindings.
//
// +kubebuilder:object:root=true
type ClusterRoleBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterRoleBinding `json:"items"`
}

// RoleBinding gives a Role of the same namespace to subjects.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="Role",type=string,JSONPath=`.roleRef.name`
// +kubebuilder:printcolumn:name="Subjects",type=string,JSONPath=`.subjects[*].name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RoleBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Subjects are who gets the role. Absent, nobody does.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:XValidation:rule="self.kind in ['User', 'Group', 'ServiceAccount'] && self.name != ''",message="a subject is a User, a Group or a ServiceAccount, and has a name"
	// +kubebuilder:validation:items:XValidation:rule="!self.name.startsWith('kapis:')",message="no binding may name a subject that begins with kapis:"
	Subjects []rbacv1.Subject `json:"subjects,omitempty"`
	// RoleRef is the role, a Role.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.kind == 'Role' && self.name != ''",message="roleRef names a Role"
	RoleRef rbacv1.RoleRef `json:"roleRef"`
}

// RoleBindingList is a list of RoleBindings.
//
// +kubebuilder:object:root=true
type RoleBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RoleBinding `json:"items"`
}

// SubjectsOf returns a pointer to the subjects of a binding of any scope, so that they can be changed in it; to none for other objects.
func SubjectsOf(o runtime.Object) *[]rbacv1.Subject {
	switch b := o.(type) {
	case *GlobalRoleBinding:
		return &b.Subjects
	case *WorkspaceRoleBinding:
		return &b.Subjects
	case *ClusterRoleBinding:
		return &b.Subjects
	case *RoleBinding:
		return &b.Subjects
	}
	return &[]rbacv1.Subject{}
}
