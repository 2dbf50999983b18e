package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// APIService has this server pass requests for a group and version of /kapis on to a backend.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.group`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Reachable",type=string,JSONPath=`.status.conditions[?(@.type=="Reachable")].status`
type APIService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec APIServiceSpec `json:"spec,omitempty"`
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Status Status `json:"status,omitempty"`
}

// APIServiceSpec names a group and version, and its backend.
type APIServiceSpec struct {
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// +kubebuilder:validation:MaxLength=63
	Version  string `json:"version,omitempty"`
	Endpoint `json:",inline"`
}

// APIServiceList is a list of APIServices.
//
// +kubebuilder:object:root=true
type APIServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []APIService `json:"items"`
}
