// Package v2 is the group application.kubesphere.io: the application store, and what was installed from it. Its kinds are stored and
// served; the routes of the store, and what installs, are not there yet.
//
// +kubebuilder:object:generate=true
// +groupName=application.kubesphere.io
package v2
