package v1alpha2

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// User is v1beta1.User as older clients ask for it; the fields are the same.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Email",type=string,JSONPath=`.spec.email`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Last-Login",type=date,JSONPath=`.status.lastLoginTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || size(self.metadata.name) <= 63",optionalOldSelf=true,message="a user's name is at most 63 characters long, since labels refer to it"
type User struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user and those who manage users say.
	// +optional
	Spec v1beta1.UserSpec `json:"spec,omitempty"`
	// Status is what the system says.
	// +optional
	Status v1beta1.UserStatus `json:"status,omitempty"`
}

// UserList is a list of Users.
//
// +kubebuilder:object:root=true
type UserList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []User `json:"items"`
}

// LoginRecord is v1beta1.LoginRecord as older clients ask for it; the fields are the same.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.metadata.labels.iam\.kubesphere\.io/user-ref`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.provider`
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.spec.sourceIP`
// +kubebuilder:printcolumn:name="Success",type=boolean,JSONPath=`.spec.success`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LoginRecord struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what was seen.
	// +required
	Spec v1beta1.LoginRecordSpec `json:"spec"`
}

// LoginRecordList is a list of LoginRecords.
//
// +kubebuilder:object:root=true
type LoginRecordList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LoginRecord `json:"items"`
}

// Group is v1beta1.Group as older clients ask for it; the fields are the same.
//
// +kubebuilder:object:root=true
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

// GroupBinding is v1beta1.GroupBinding as older clients ask for it; the fields are the same.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.groupRef.name`
// +kubebuilder:printcolumn:name="Users",type=string,JSONPath=`.users`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GroupBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// GroupRef is the group.
	// +optional
	GroupRef v1beta1.GroupRef `json:"groupRef,omitempty"`
	// Users are the names of its users.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Users []string `json:"users,omitempty"`
}

// GroupBindingList is a list of GroupBindings.
//
// +kubebuilder:object:root=true
type GroupBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GroupBinding `json:"items"`
}

// GlobalRole is v1beta1.GlobalRole as older clients ask for it; the fields are the same.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=gr
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GlobalRole struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// AggregationRoleTemplates says which templates the rules come from.
	// +optional
	AggregationRoleTemplates *v1beta1.AggregationRoleTemplates `json:"aggregationRoleTemplates,omitempty"`
	// Rules are what the role grants. Absent, it grants nothing.
	// +optional
	// +nullable
	// +listType=atomic
	Rules []rbacv1.PolicyRule `json:"rules,omitempty"`
}

// GlobalRoleList is a list of GlobalRoles.
//
// +kubebuilder:object:root=true
type GlobalRoleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GlobalRole `json:"items"`
}

// GlobalRoleBinding is v1beta1.GlobalRoleBinding as older clients ask for it; the fields are the same.
//
// +kubebuilder:object:root=true
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

// WorkspaceRole is v1beta1.WorkspaceRole as older clients ask for it; the fields are the same.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=wsr
// +kubebuilder:printcolumn:name="Workspace",type=string,JSONPath=`.metadata.labels.kubesphere\.io/workspace`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WorkspaceRole struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// AggregationRoleTemplates says which templates the rules come from.
	// +optional
	AggregationRoleTemplates *v1beta1.AggregationRoleTemplates `json:"aggregationRoleTemplates,omitempty"`
	// Rules are what the role grants. Absent, it grants nothing.
	// +optional
	// +nullable
	// +listType=atomic
	Rules []rbacv1.PolicyRule `json:"rules,omitempty"`
}

// WorkspaceRoleList is a list of WorkspaceRoles.
//
// +kubebuilder:object:root=true
type WorkspaceRoleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkspaceRole `json:"items"`
}

// WorkspaceRoleBinding is v1beta1.WorkspaceRoleBinding as older clients ask for it; the fields are the same.
//
// +kubebuilder:object:root=true
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
