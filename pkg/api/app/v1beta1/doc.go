// Package v1beta1 is the group app.k8s.io, which SIG Apps of Kubernetes has defined: an Application says which objects of a namespace
// belong together.
//
// +kubebuilder:object:generate=true
// +groupName=app.k8s.io
package v1beta1
