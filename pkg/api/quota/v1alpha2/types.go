package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceQuota limits what the namespaces that it selects use together: those of a workspace, with the selector
// kubesphere.io/workspace=<name>.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster,categories=quota
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ResourceQuota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is limited, and where.
	// +required
	Spec ResourceQuotaSpec `json:"spec"`
	// Status is what is used.
	// +optional
	Status ResourceQuotaStatus `json:"status,omitempty,omitzero"`
}

// ResourceQuotaSpec says what is limited, and where.
type ResourceQuotaSpec struct {
	// Selector are the labels of the namespaces whose use is added up. Without any, all namespaces are.
	// +optional
	Selector map[string]string `json:"selector,omitempty"`
	// Quota is the limit, in the words of Kubernetes' own ResourceQuota.
	// +required
	Quota corev1.ResourceQuotaSpec `json:"quota"`
}

// ResourceQuotaStatus is what is used.
type ResourceQuotaStatus struct {
	// Total is the use of all selected namespaces, and what was admitted and has not appeared yet.
	// +optional
	Total corev1.ResourceQuotaStatus `json:"total,omitempty,omitzero"`
	// Namespaces is the use of each namespace, by name.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	Namespaces []NamespaceUsage `json:"namespaces,omitempty"`
}

// NamespaceUsage is the use of one namespace.
type NamespaceUsage struct {
	corev1.ResourceQuotaStatus `json:",inline"`

	// Namespace is its name.
	// +required
	Namespace string `json:"namespace"`
}

// ResourceQuotaList is a list of ResourceQuotas.
//
// +kubebuilder:object:root=true
type ResourceQuotaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ResourceQuota `json:"items"`
}
