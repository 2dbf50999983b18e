// Package v1alpha1 is the group extensions.kubesphere.io: what extensions add to this server and to the console's pages.
//
// +kubebuilder:object:generate=true
// +groupName=extensions.kubesphere.io
package v1alpha1
