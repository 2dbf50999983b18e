// Package v1alpha1 is the group kubesphere.io: so far the service accounts that programs in pods call ks-apiserver as.
//
// +kubebuilder:object:generate=true
// +groupName=kubesphere.io
package v1alpha1
