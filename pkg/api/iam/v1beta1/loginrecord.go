package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LoginType is the way in which somebody tried to log in.
//
// +kubebuilder:validation:MaxLength=63
type LoginType string

// The ways to log in.
const (
	// LoginToken is a token issued for a password or by a provider's callback.
	LoginToken LoginType = "Token"
	// LoginOAuth is a login through an identity provider.
	LoginOAuth LoginType = "OAuth"
	// LoginPassword is a password sent with a request.
	LoginPassword LoginType = "Password"
)

// LoginRecord is one attempt to log in as an existing user, which LabelUserReference names.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.metadata.labels.iam\.kubesphere\.io/user-ref`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.provider`
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.spec.sourceIP`
// +kubebuilder:printcolumn:name="Success",type=boolean,JSONPath=`.spec.success`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LoginRecord struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what was seen.
	// +required
	Spec LoginRecordSpec `json:"spec"`
}

// LoginRecordSpec is what was seen of an attempt to log in.
type LoginRecordSpec struct {
	// Type is the way that was tried.
	// +required
	Type LoginType `json:"type"`
	// Provider is the identity provider that was asked; empty for a local password.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Provider string `json:"provider,omitempty"`
	// SourceIP is the address that the attempt came from.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SourceIP string `json:"sourceIP,omitempty"`
	// UserAgent is what the client called itself.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	UserAgent string `json:"userAgent,omitempty"`
	// Success tells a login from a refusal.
	// +required
	Success bool `json:"success"`
	// Reason says why it was refused, for those who may see it.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Reason string `json:"reason,omitempty"`
}

// LoginRecordList is a list of LoginRecords.
//
// +kubebuilder:object:root=true
type LoginRecordList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LoginRecord `json:"items"`
}
