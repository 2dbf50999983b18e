// Package v1alpha1 is the group session.kapis.dev: what a login is, as every replica sees it.
//
// +kubebuilder:object:generate=true
// +groupName=session.kapis.dev
package v1alpha1
