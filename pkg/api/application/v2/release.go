package v2

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels of a release besides those of the store: where it is installed.
const (
	// LabelCluster and LabelNamespace are the cluster and the namespace of a release.
	LabelCluster   = "kubesphere.io/cluster"
	LabelNamespace = "kubesphere.io/namespace"
	// LabelWorkspace is the workspace of that namespace.
	LabelWorkspace = "kubesphere.io/workspace"
)

const (
	// AnnotationCreator is who made a release.
	AnnotationCreator = "kubesphere.io/creator"
	// AnnotationRetry repeats an operation that failed, whenever its value changes.
	AnnotationRetry = "kapis.dev/retry"
	// AnnotationForceDelete lets a release go whose cluster does not answer: what is installed there stays.
	AnnotationForceDelete = "kubesphere.io/force-delete"
	// AnnotationFleetHash says of a release in a member which operation of the hub's release it is. The hub alone writes it.
	AnnotationFleetHash = "kapis.dev/fleet-hash"
	// AnnotationFleetPackage says of a release in a member which package the hub has brought for it. The hub alone writes it.
	AnnotationFleetPackage = "kapis.dev/fleet-package"
	// AnnotationAdopt says of a release in a member that an earlier installation has installed it there. The hub alone writes it.
	AnnotationAdopt = "kapis.dev/adopt"
	// AnnotationSaved says that somebody has saved an object by a route of this platform; an earlier installation did not write it.
	AnnotationSaved = "kapis.dev/saved"
	// FinalizerRelease holds a release until what it installed is removed.
	FinalizerRelease = "helmrelease.application.kubesphere.io"
)

// ApplicationRelease is an application that is installed. Its labels say where.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=apprls
// +kubebuilder:printcolumn:name="App",type=string,JSONPath=`.spec.appID`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.appVersionID`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ApplicationRelease struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ApplicationReleaseSpec `json:"spec,omitempty"`
	// +optional
	Status ApplicationReleaseStatus `json:"status,omitempty"`
}

// ApplicationReleaseSpec says what is installed.
type ApplicationReleaseSpec struct {
	// +optional
	AppID string `json:"appID,omitempty"`
	// +optional
	AppVersionID string `json:"appVersionID,omitempty"`
	// AppType is helm, yaml or edge.
	// +optional
	AppType string `json:"appType,omitempty"`
	// +optional
	Icon string `json:"icon,omitempty"`
	// Values are those of the release, stored as they are written.
	// +optional
	Values *apiextensionsv1.JSON `json:"values,omitempty"`
}

// ApplicationReleaseStatus is where a release is in its life.
type ApplicationReleaseStatus struct {
	// State is creating, created, active, upgrading, upgraded, deleting, failed, deployFailed, timeout or clusterDeleted.
	// +optional
	State string `json:"state,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// SpecHash is that of what was installed last.
	// +optional
	SpecHash string `json:"specHash,omitempty"`
	// +optional
	InstallJobName string `json:"installJobName,omitempty"`
	// +optional
	UninstallJobName string `json:"uninstallJobName,omitempty"`
	// +optional
	LastUpdate *metav1.Time `json:"lastUpdate,omitempty"`
	// RealTimeResources are the objects of the release, in answers to requests for one.
	// +optional
	// +listType=atomic
	RealTimeResources []apiextensionsv1.JSON `json:"realTimeResources,omitempty"`
}

// ApplicationReleaseList is a list of ApplicationReleases.
//
// +kubebuilder:object:root=true
type ApplicationReleaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ApplicationRelease `json:"items"`
}
