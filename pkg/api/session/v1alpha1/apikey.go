package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// APIKey is a long-lived credential of one user, for automation. It holds a hash only: reading it gives no one a way in, and
// deleting it ends the key on every replica.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.user`
// +kubebuilder:printcolumn:name="Description",type=string,JSONPath=`.spec.description`
// +kubebuilder:printcolumn:name="Scope",type=string,JSONPath=`.spec.scope`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expiresAt`
// +kubebuilder:printcolumn:name="Last-Used",type=date,JSONPath=`.lastUsedAt`
type APIKey struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says whose key it is. It stays as it was made.
	// +required
	Spec APIKeySpec `json:"spec"`
	// LastUsedAt is about when the key was last seen: to the hour.
	// +optional
	LastUsedAt metav1.Time `json:"lastUsedAt,omitzero"`
}

// APIKeySpec says whose key it is, and until when it is good.
type APIKeySpec struct {
	// User is the name of the User.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	User string `json:"user"`
	// UserUID is the UID of the User; a User deleted and made again is another person.
	// +required
	UserUID types.UID `json:"userUID"`
	// Description says what the key is for.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Description string `json:"description,omitempty"`
	// Scope is what the key is for: "read" for reading only, nothing for all that the user may.
	// +optional
	// +kubebuilder:validation:Enum=read
	Scope string `json:"scope,omitempty"`
	// Hash is the SHA-256 hash of the secret, which has 256 random bits, in hexadecimal.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	Hash string `json:"hash"`
	// CreatedAt is when the key was made.
	// +required
	CreatedAt metav1.Time `json:"createdAt"`
	// ExpiresAt is when it ends.
	// +required
	ExpiresAt metav1.Time `json:"expiresAt"`
}

// APIKeyList is a list of APIKeys.
//
// +kubebuilder:object:root=true
type APIKeyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []APIKey `json:"items"`
}
