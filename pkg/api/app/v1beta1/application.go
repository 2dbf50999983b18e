package v1beta1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Application is the objects of a namespace that belong together, and what people should know of them.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=app
// +kubebuilder:metadata:labels="kubesphere.io/resource-served=true"
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=unapproved, defined by SIG Apps outside of Kubernetes"
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.descriptor.type`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.descriptor.version`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.componentsReady`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Application struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ApplicationSpec `json:"spec,omitempty"`
	// +optional
	Status ApplicationStatus `json:"status,omitempty"`
}

// ApplicationSpec says which objects belong to the application, and describes it.
type ApplicationSpec struct {
	// ComponentKinds are the kinds of its objects.
	// +optional
	// +listType=atomic
	ComponentKinds []metav1.GroupKind `json:"componentKinds,omitempty"`
	// Selector selects its objects by their labels.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// AddOwnerRef asks that the application becomes the owner of its objects.
	// +optional
	AddOwnerRef bool `json:"addOwnerRef,omitempty"`
	// AssemblyPhase says whether all objects are there.
	// +optional
	AssemblyPhase string `json:"assemblyPhase,omitempty"`
	// Descriptor is for people.
	// +optional
	Descriptor Descriptor `json:"descriptor,omitempty"`
	// Info has what people should know, such as where a password is.
	// +optional
	// +listType=atomic
	Info []InfoItem `json:"info,omitempty"`
}

// Descriptor describes an application for people. Its lists of objects are stored as they are written.
type Descriptor struct {
	// +optional
	Type string `json:"type,omitempty"`
	// +optional
	Version string `json:"version,omitempty"`
	// +optional
	Description string `json:"description,omitempty"`
	// +optional
	// +listType=atomic
	Icons []apiextensionsv1.JSON `json:"icons,omitempty"`
	// +optional
	// +listType=atomic
	Keywords []string `json:"keywords,omitempty"`
	// +optional
	// +listType=atomic
	Links []apiextensionsv1.JSON `json:"links,omitempty"`
	// +optional
	// +listType=atomic
	Maintainers []apiextensionsv1.JSON `json:"maintainers,omitempty"`
	// +optional
	// +listType=atomic
	Owners []apiextensionsv1.JSON `json:"owners,omitempty"`
	// +optional
	Notes string `json:"notes,omitempty"`
}

// InfoItem is one thing that people should know: a value, or where it is.
type InfoItem struct {
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Type string `json:"type,omitempty"`
	// +optional
	Value string `json:"value,omitempty"`
	// ValueFrom says where the value is, and is stored as it is written.
	// +optional
	ValueFrom *apiextensionsv1.JSON `json:"valueFrom,omitempty"`
}

// ApplicationStatus is the state of the objects.
type ApplicationStatus struct {
	// Components are the objects, stored as they are written.
	// +optional
	// +listType=atomic
	Components []apiextensionsv1.JSON `json:"components,omitempty"`
	// ComponentsReady is how many of all objects are ready, such as 2/3.
	// +optional
	ComponentsReady string `json:"componentsReady,omitempty"`
	// Conditions are stored as they are written.
	// +optional
	// +listType=atomic
	Conditions []apiextensionsv1.JSON `json:"conditions,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// ApplicationList is a list of Applications.
//
// +kubebuilder:object:root=true
type ApplicationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Application `json:"items"`
}
