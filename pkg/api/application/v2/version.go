package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApplicationVersion is a version of an application of the store.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=appver
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.versionName`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ApplicationVersion struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ApplicationVersionSpec `json:"spec,omitempty"`
	// +optional
	Status ApplicationVersionStatus `json:"status,omitempty"`
}

// ApplicationVersionSpec is what the version's package says, and where it is.
type ApplicationVersionSpec struct {
	// +optional
	VersionName string `json:"versionName,omitempty"`
	// AppType is helm, yaml or edge.
	// +optional
	AppType string `json:"appType,omitempty"`
	// +optional
	AppHome string `json:"appHome,omitempty"`
	// +optional
	Icon string `json:"icon,omitempty"`
	// Created is when the version was made.
	// +optional
	Created *metav1.Time `json:"created,omitempty"`
	// Digest is that of the package.
	// +optional
	Digest string `json:"digest,omitempty"`
	// PullURL is where the package is.
	// +optional
	PullURL string `json:"pullUrl,omitempty"`
	// +optional
	// +listType=atomic
	Maintainer []Maintainer `json:"maintainer,omitempty"`
}

// Maintainer is somebody who maintains a version.
type Maintainer struct {
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Email string `json:"email,omitempty"`
	// +optional
	URL string `json:"url,omitempty"`
}

// ApplicationVersionStatus is where a version is in its review.
type ApplicationVersionStatus struct {
	// State is draft, submitted, passed, rejected, active or suspended.
	// +optional
	State string `json:"state,omitempty"`
	// Message is what the reviewer says.
	// +optional
	Message string `json:"message,omitempty"`
	// UserName is who changed the state last.
	// +optional
	UserName string `json:"userName,omitempty"`
	// +optional
	Updated *metav1.Time `json:"updated,omitempty"`
	// Audits are the last changes of the state, the latest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Audits []Audit `json:"audits,omitempty"`
}

// Audit is a change of the state of a version.
type Audit struct {
	// State is what it became, and Message what was said about it.
	// +optional
	State string `json:"state,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// UserName is who changed it.
	// +optional
	UserName string `json:"userName,omitempty"`
	// +optional
	Updated *metav1.Time `json:"updated,omitempty"`
}

// ApplicationVersionList is a list of ApplicationVersions.
//
// +kubebuilder:object:root=true
type ApplicationVersionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ApplicationVersion `json:"items"`
}
