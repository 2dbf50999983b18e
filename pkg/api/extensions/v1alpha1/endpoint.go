package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The states of an object of an extension, in status.state.
const (
	// StateAvailable says that the object is in use. Only then does this server answer for it.
	StateAvailable = "Available"
	// StateDisabled says that its extension is disabled.
	StateDisabled = "Disabled"
)

const (
	// LabelExtension names the extension that an object belongs to.
	LabelExtension = "kubesphere.io/extension-ref"
	// LabelProxyTarget says who serves a ReverseProxy: ks-apiserver, which is the default, or TargetConsole.
	LabelProxyTarget = "kubesphere.io/reverse-proxy-target"
	// TargetConsole is the value for those that the console's server serves.
	TargetConsole = "ks-console"
	// AnnotationDigest is the SHA-256 of a JSBundle's content, in hexadecimal: a change of the content is so one of the object.
	AnnotationDigest = "kapis.dev/sha256"
	// AnnotationRoot is, on an APIService, the path below which its backend has the group, in place of /kapis: /apis for a server that is
	// built with k8s.io/apiserver.
	AnnotationRoot = "kapis.dev/backend-root"
	// AnnotationForward is "true" on an APIService or a ReverseProxy whose backend gets the access tokens of its callers, with which it can
	// do what they can. Only who may impersonate users can ask for that.
	AnnotationForward = "kapis.dev/forward-authorization"
	// AnnotationApprovedForward is the digest of what was approved to get them. Only the webhook writes it.
	AnnotationApprovedForward = "kapis.dev/approved-forward-authorization"
	// ConditionReachable says whether a backend answers.
	ConditionReachable = "Reachable"
	// ConditionVerified is False where the certificate of a backend is not verified, and absent otherwise.
	ConditionVerified = "Verified"
)

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

// Status is the state of an object of an extension.
type Status struct {
	// State is Available or Disabled.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	State string `json:"state,omitempty"`
	// Conditions say what works.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
