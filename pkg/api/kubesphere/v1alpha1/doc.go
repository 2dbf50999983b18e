// Package v1alpha1 is the group kubesphere.io: the service accounts that programs in pods call ks-apiserver as, and the catalogue of
// extensions: where they come from, which versions there are, and what is to be installed.
//
// The kinds of the catalogue have no status sub-resource: clients and charts of existing installations write the status with the whole
// object, and one would drop it in silence.
//
// +kubebuilder:object:generate=true
// +groupName=kubesphere.io
package v1alpha1
