// Package v1alpha2 is the group gateway.kubesphere.io in the version that says which projects may use which ingress class.
//
// +kubebuilder:object:generate=true
// +groupName=gateway.kubesphere.io
package v1alpha2
