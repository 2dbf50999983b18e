// Package v1beta1 is the group tenant.kubesphere.io: workspaces, and the templates they are made from.
//
// +kubebuilder:object:generate=true
// +groupName=tenant.kubesphere.io
package v1beta1
