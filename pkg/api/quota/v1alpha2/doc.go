// Package v1alpha2 is the group quota.kubesphere.io: limits on what several namespaces, such as those of a workspace, use together.
//
// +kubebuilder:object:generate=true
// +groupName=quota.kubesphere.io
package v1alpha2
