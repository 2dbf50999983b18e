// Package v1alpha1 is the group storage.kubesphere.io: what drivers of volumes can do. Installations have such objects; nothing here
// reads them, and annotations of storage classes say what pages need (pkg/controller/storageclass).
//
// +kubebuilder:object:generate=true
// +groupName=storage.kubesphere.io
package v1alpha1
