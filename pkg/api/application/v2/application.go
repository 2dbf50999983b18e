package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Application is an application of the store.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=app
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.appType`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Application struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ApplicationSpec `json:"spec,omitempty"`
	// +optional
	Status ApplicationStatus `json:"status,omitempty"`
}

// ApplicationSpec describes an application for people.
type ApplicationSpec struct {
	// AppType is helm, yaml or edge.
	// +optional
	AppType string `json:"appType,omitempty"`
	// AppHome is an address about the application.
	// +optional
	AppHome string `json:"appHome,omitempty"`
	// Abstraction is a summary.
	// +optional
	Abstraction string `json:"abstraction,omitempty"`
	// Icon is an image or an address of one.
	// +optional
	Icon string `json:"icon,omitempty"`
	// Attachments are the ids of images.
	// +optional
	// +listType=atomic
	Attachments []string `json:"attachments,omitempty"`
	// Resources are the kinds that the application is made of.
	// +optional
	// +listType=atomic
	Resources []Resource `json:"resources,omitempty"`
}

// Resource is a kind that an application is made of, with the names that clients know.
type Resource struct {
	// +optional
	Group string `json:"Group,omitempty"`
	// +optional
	Version string `json:"Version,omitempty"`
	// +optional
	Resource string `json:"Resource,omitempty"`
	// +optional
	Name string `json:"Name,omitempty"`
	// +optional
	Desc string `json:"Desc,omitempty"`
	// +optional
	ParentNode string `json:"ParentNode,omitempty"`
}

// ApplicationStatus is where an application is in its life.
type ApplicationStatus struct {
	// State is draft, active or suspended.
	// +optional
	State string `json:"state,omitempty"`
	// +optional
	UpdateTime *metav1.Time `json:"updateTime,omitempty"`
}

// ApplicationList is a list of Applications.
//
// +kubebuilder:object:root=true
type ApplicationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Application `json:"items"`
}
