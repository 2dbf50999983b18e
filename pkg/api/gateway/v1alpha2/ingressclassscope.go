package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationService names the Service that serves an ingress class, as namespace/name.
const AnnotationService = "gateway.kubesphere.io/service-name"

// IngressClassScope says which projects may use an ingress class.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.ingressClass.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type IngressClassScope struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the class, and who may use it.
	// +optional
	Spec IngressClassScopeSpec `json:"spec,omitempty"`
	// Status is how clients reach what serves the class. It is filled in where the object is read by a project.
	// +optional
	Status IngressClassScopeStatus `json:"status,omitempty"`
}

// IngressClassScopeSpec is a class, and who may use it.
type IngressClassScopeSpec struct {
	// IngressClass is the class.
	// +optional
	IngressClass IngressClass `json:"ingressClass,omitempty"`
	// Scope says which projects may use the class; all of them where it is empty.
	// +optional
	Scope NamespaceScope `json:"scope,omitempty"`
}

// IngressClass names a class.
type IngressClass struct {
	// Default says whether pages offer the class first.
	// +optional
	Default bool `json:"default,omitempty"`
	// Name is the name of the IngressClass.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// NamespaceScope is a set of namespaces.
type NamespaceScope struct {
	// Namespaces are names of namespaces. Where there are any, NamespaceSelector is not read.
	// +optional
	// +listType=atomic
	Namespaces []string `json:"namespaces,omitempty"`
	// NamespaceSelector selects namespaces by their labels: a selector as text, such as a=b,c!=d, or one of matchLabels and matchExpressions.
	// +optional
	NamespaceSelector *apiextensionsv1.JSON `json:"namespaceSelector,omitempty"`
}

// IngressClassScopeStatus is how clients reach what serves a class.
type IngressClassScopeStatus struct {
	// LoadBalancer has the addresses.
	// +optional
	LoadBalancer corev1.LoadBalancerStatus `json:"loadBalancer,omitempty"`
	// Service has the ports.
	// +optional
	// +listType=atomic
	Service []corev1.ServicePort `json:"service,omitempty"`
}

// IngressClassScopeList is a list of IngressClassScopes.
//
// +kubebuilder:object:root=true
type IngressClassScopeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IngressClassScope `json:"items"`
}
