// Package v1alpha1 is the older version in which clients may still ask for workspaces.
//
// +kubebuilder:object:generate=true
// +groupName=tenant.kubesphere.io
package v1alpha1
