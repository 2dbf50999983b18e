// Package v1alpha2 is the older version in which clients may still ask for workspace templates.
//
// +kubebuilder:object:generate=true
// +groupName=tenant.kubesphere.io
package v1alpha2
