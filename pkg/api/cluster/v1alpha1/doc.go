// Package v1alpha1 is the group cluster.kubesphere.io: the clusters of a fleet, and labels put on them.
//
// +kubebuilder:object:generate=true
// +groupName=cluster.kubesphere.io
package v1alpha1
