package v1beta1

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels of a RoleTemplate, and of the categories and built-in roles that go with it.
const (
	// LabelScope is the scope: global, cluster, workspace or namespace.
	LabelScope = "iam.kubesphere.io/scope"
	// LabelCategory names the Category that pages show the template under.
	LabelCategory = "iam.kubesphere.io/category"
	// LabelRoleTemplate marks a role of release 3 as a template.
	LabelRoleTemplate = "iam.kubesphere.io/role-template"
	// LabelBasicRoleTemplate marks a template that every role of the scope includes.
	LabelBasicRoleTemplate = "iam.kubesphere.io/basic-role-template"
	// LabelHiddenRoleTemplate, "true", hides the template where a role is edited.
	LabelHiddenRoleTemplate = "iam.kubesphere.io/hidden-role-template"
	// LabelAggregateToPrefix, followed by the name of a role, puts the template's rules in it.
	LabelAggregateToPrefix = "iam.kubesphere.io/aggregate-to-"
)

// Annotations of a RoleTemplate.
const (
	// AnnotationDependencies lists, as a JSON array, the templates that this one is of no use without.
	AnnotationDependencies = "iam.kubesphere.io/dependencies"
	// AnnotationRoleTemplateRules tells pages, as a JSON object {module: action}, what to show.
	// It grants nothing.
	AnnotationRoleTemplateRules = "iam.kubesphere.io/role-template-rules"
)

// Values of LabelScope.
const (
	ScopeGlobal    = "global"
	ScopeCluster   = "cluster"
	ScopeWorkspace = "workspace"
	ScopeNamespace = "namespace"
)

// RoleTemplate is a set of rules with a name for people, of which roles are put together.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Scope",type=string,JSONPath=`.metadata.labels.iam\.kubesphere\.io/scope`
// +kubebuilder:printcolumn:name="Category",type=string,JSONPath=`.metadata.labels.iam\.kubesphere\.io/category`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RoleTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the name and the rules.
	// +optional
	Spec RoleTemplateSpec `json:"spec,omitempty"`
}

// RoleTemplateSpec is what people call a template, and what it grants.
type RoleTemplateSpec struct {
	// DisplayName is the name by language ("en", "zh").
	// +optional
	DisplayName map[string]string `json:"displayName,omitempty"`
	// Description is the description by language.
	// +optional
	Description map[string]string `json:"description,omitempty"`
	// Rules are what the template grants.
	// +optional
	// +nullable
	// +listType=atomic
	Rules []rbacv1.PolicyRule `json:"rules,omitempty"`
}

// RoleTemplateList is a list of RoleTemplates.
//
// +kubebuilder:object:root=true
type RoleTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RoleTemplate `json:"items"`
}
