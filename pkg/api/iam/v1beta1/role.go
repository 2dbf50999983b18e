package v1beta1

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations of a role.
const (
	// AnnotationCELCondition is an expression in CEL. The role grants its rules to a request only
	// where the expression holds for that request.
	AnnotationCELCondition = "iam.kubesphere.io/cel-condition"
	// AnnotationRegoOverride is the condition in Rego that roles of an older installation may carry.
	AnnotationRegoOverride = "iam.kubesphere.io/rego-override"
	// AnnotationAggregationRoles lists, as a JSON array, the names of the roles or templates that
	// the role was made of.
	AnnotationAggregationRoles = "iam.kubesphere.io/aggregation-roles"
	// AnnotationAutoAggregate asks for the rules of templateNames to be kept in the role's rules.
	AnnotationAutoAggregate = "iam.kubesphere.io/auto-aggregate"
	// AnnotationAggregated is where a role says which of its rules and template names came from templates.
	AnnotationAggregated = "kapis.dev/aggregated"
	// AnnotationPattern is where a role has the fingerprint of the BuiltinRole that made it.
	AnnotationPattern = "kapis.dev/builtin-role"
)

// Finalizers of roles.
const (
	// FinalizerGlobalRole keeps a deleted GlobalRole until its copies are gone.
	FinalizerGlobalRole = "finalizers.kubesphere.io/globalroles"
	// FinalizerWorkspaceRole keeps a deleted WorkspaceRole until its copies are gone.
	FinalizerWorkspaceRole = "finalizers.kubesphere.io/workspaceroles"
)

// LabelRoleReference is carried by bindings: the name of the role.
const LabelRoleReference = "iam.kubesphere.io/role-ref"

// The label of the native roles and bindings that mirror those of this group. An object without it mirrors nothing, whatever its name.
const (
	// LabelManagedBy says who manages an object.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedByController is the value of LabelManagedBy on what ks-controller-manager makes.
	ManagedByController = "ks-controller-manager"
)

// AggregationRoleTemplates says which templates a role's rules come from: those that are named, and
// those that the selector finds among the templates of the role's scope.
type AggregationRoleTemplates struct {
	// TemplateNames are names of RoleTemplates.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	TemplateNames []string `json:"templateNames,omitempty"`
	// RoleSelector finds RoleTemplates by label. An absent one finds none.
	// +optional
	RoleSelector *metav1.LabelSelector `json:"roleSelector,omitempty"`
}

// GlobalRole grants rules everywhere: on the platform, in every workspace, cluster and namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster,shortName=gr
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GlobalRole struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// AggregationRoleTemplates says which templates the rules come from.
	// +optional
	AggregationRoleTemplates *AggregationRoleTemplates `json:"aggregationRoleTemplates,omitempty"`
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

// WorkspaceRole grants rules in one workspace and its namespaces; the label kubesphere.io/workspace names it.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster,shortName=wsr
// +kubebuilder:printcolumn:name="Workspace",type=string,JSONPath=`.metadata.labels.kubesphere\.io/workspace`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WorkspaceRole struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// AggregationRoleTemplates says which templates the rules come from.
	// +optional
	AggregationRoleTemplates *AggregationRoleTemplates `json:"aggregationRoleTemplates,omitempty"`
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

// ClusterRole grants rules in the cluster: on what is in no workspace, and in every namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterRole struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// AggregationRoleTemplates says which templates the rules come from.
	// +optional
	AggregationRoleTemplates *AggregationRoleTemplates `json:"aggregationRoleTemplates,omitempty"`
	// Rules are what the role grants. Absent, it grants nothing.
	// +optional
	// +nullable
	// +listType=atomic
	Rules []rbacv1.PolicyRule `json:"rules,omitempty"`
}

// ClusterRoleList is a list of ClusterRoles.
//
// +kubebuilder:object:root=true
type ClusterRoleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterRole `json:"items"`
}

// Role grants rules in its namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Role struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// AggregationRoleTemplates says which templates the rules come from.
	// +optional
	AggregationRoleTemplates *AggregationRoleTemplates `json:"aggregationRoleTemplates,omitempty"`
	// Rules are what the role grants. Absent, it grants nothing.
	// +optional
	// +nullable
	// +listType=atomic
	Rules []rbacv1.PolicyRule `json:"rules,omitempty"`
}

// RoleList is a list of Roles.
//
// +kubebuilder:object:root=true
type RoleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Role `json:"items"`
}
