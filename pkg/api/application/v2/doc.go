// Package v2 is the group application.kubesphere.io: the application store, and what was installed from it.
//
// +kubebuilder:object:generate=true
// +groupName=application.kubesphere.io
package v2
