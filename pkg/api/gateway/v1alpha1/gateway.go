package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Gateway is the gateway of a project: the ingress controller, or the Gateway of gateway.networking.k8s.io, that serves the project's
// namespace and no other. Its name is kubesphere-router-<namespace>.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.service.type`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Gateway struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the project asks for. What the template of gateways does not leave open is refused.
	// +optional
	Spec GatewaySpec `json:"spec,omitempty"`
	// Status is the state of the gateway. Other programs may add fields of their own.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Status GatewayStatus `json:"status,omitempty"`
}

// GatewaySpec is what a project asks for.
type GatewaySpec struct {
	// Controller is the ingress controller.
	// +optional
	Controller ControllerSpec `json:"controller,omitempty"`
	// Service is how clients reach the gateway.
	// +optional
	Service ServiceSpec `json:"service,omitempty"`
	// Deployment is how the ingress controller runs.
	// +optional
	Deployment DeploymentSpec `json:"deployment,omitempty"`
}

// ControllerSpec is the ingress controller.
type ControllerSpec struct {
	// Replicas is how many replicas it has, where the deployment does not say.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Replicas *int32 `json:"replicas,omitempty"`
	// Annotations are those of the controller's pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	Annotations map[string]string `json:"annotations,omitempty"`
	// Config is the controller's configuration.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Config map[string]string `json:"config,omitempty"`
	// Scope is the namespace that the controller serves. It is the Gateway's own, whatever is written here; another one is refused.
	// +optional
	Scope Scope `json:"scope,omitempty"`
	// TCP and UDP would publish ports of Services without an Ingress. They are not supported, and refused.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	TCP map[string]string `json:"tcp,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	UDP map[string]string `json:"udp,omitempty"`
}

// Scope is what a controller serves.
type Scope struct {
	// Enabled says whether it serves one namespace only.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// Namespace is the namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// ServiceSpec is how clients reach a gateway.
type ServiceSpec struct {
	// Annotations are those of the Service.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	Annotations map[string]string `json:"annotations,omitempty"`
	// Type is the type of the Service; NodePort.
	// +optional
	// +kubebuilder:validation:Enum="";NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`
}

// DeploymentSpec is how the ingress controller runs.
type DeploymentSpec struct {
	// Replicas is how many replicas it has.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Replicas *int32 `json:"replicas,omitempty"`
	// Annotations are those of the Deployment.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	Annotations map[string]string `json:"annotations,omitempty"`
	// Resources are those of the controller's container.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
}

// GatewayStatus is the state of a gateway.
type GatewayStatus struct {
	// LoadBalancer has the addresses at which clients reach the gateway.
	// +optional
	LoadBalancer corev1.LoadBalancerStatus `json:"loadBalancer,omitempty"`
	// Service has the ports at which clients reach the gateway.
	// +optional
	// +listType=atomic
	Service []corev1.ServicePort `json:"service,omitempty"`
	// Conditions are Accepted, which says why nothing is made of the Gateway, and Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GatewayList is a list of Gateways.
//
// +kubebuilder:object:root=true
type GatewayList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Gateway `json:"items"`
}
