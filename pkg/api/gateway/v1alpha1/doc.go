// Package v1alpha1 is the group gateway.kubesphere.io in the version that has the gateways of projects.
//
// +kubebuilder:object:generate=true
// +groupName=gateway.kubesphere.io
package v1alpha1
