package v1alpha1

// Endpoint is where a backend is: a URL or a Service.
type Endpoint struct {
	// URL is the http or https URL of the backend.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	URL *string `json:"url,omitempty"`
	// CABundle are PEM certificates of the authorities that the backend's certificate is verified by, in base64; those that this server's
	// machine trusts, where it is empty.
	// +optional
	// +kubebuilder:validation:MaxLength=1048576
	CABundle []byte `json:"caBundle,omitempty"`
	// InsecureSkipVerify accepts any certificate.
	// +optional
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
	// Service is a Service of the cluster.
	// +optional
	Service *ServiceReference `json:"service,omitempty"`
}

// ServiceReference names a port of a Service.
type ServiceReference struct {
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Path is that of the backend below its port.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Path *string `json:"path,omitempty"`
	// Port is 443 where it is absent, and http is spoken to every other one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`
}
