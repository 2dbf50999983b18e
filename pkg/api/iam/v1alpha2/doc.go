// Package v1alpha2 is the older version in which clients may still ask for eight kinds of the group iam.kubesphere.io.
//
// +kubebuilder:object:generate=true
// +groupName=iam.kubesphere.io
package v1alpha2
