// Package v1beta1 is the group iam.kubesphere.io: users and groups, roles and bindings at four
// scopes, and the templates that roles are made of.
//
// +kubebuilder:object:generate=true
// +groupName=iam.kubesphere.io
package v1beta1
