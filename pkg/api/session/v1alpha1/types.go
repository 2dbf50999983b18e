package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Session is one login of one user. Its name is the session id that tokens carry; while the object
// exists and has not expired, tokens that name it may be good, and deleting it ends the login on
// every replica. It holds hashes only: reading it gives no one a way in.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.user`
// +kubebuilder:printcolumn:name="Client",type=string,JSONPath=`.spec.client`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expiresAt`
type Session struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says who logged in and how. It stays as it was made.
	// +required
	Spec SessionSpec `json:"spec"`
	// Refresh is the state of the session's refresh token; absent where none was issued.
	// It is written with the object, so that a rotation is one atomic update.
	// +optional
	Refresh Refresh `json:"refresh,omitzero"`
	// LastUsedAt is about when a token of the session was last seen.
	// +optional
	LastUsedAt metav1.Time `json:"lastUsedAt,omitzero"`
}

// SessionSpec says who logged in and how.
type SessionSpec struct {
	// User is the name of the User.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	User string `json:"user"`
	// UserUID is the UID of the User at login; a User deleted and made again is another person.
	// +optional
	UserUID types.UID `json:"userUID,omitempty"`
	// Client is the name of the OAuth client that the session was opened for.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Client string `json:"client,omitempty"`
	// Provider is the identity provider that vouched for the user; empty for a local password.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Provider string `json:"provider,omitempty"`
	// Scopes are the scopes that were granted.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Scopes []string `json:"scopes,omitempty"`
	// Credential is a fingerprint (a hash, never the value) of the credential that opened the
	// session. When the user's credential no longer has it, the session is over.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Credential string `json:"credential,omitempty"`
	// CreatedAt is when the user proved who he is.
	// +required
	CreatedAt metav1.Time `json:"createdAt"`
	// ExpiresAt is the absolute end: no use and no rotation carries a session past it.
	// +required
	ExpiresAt metav1.Time `json:"expiresAt"`
}

// Refresh is the state of a session's refresh token (RFC 9700, 4.14: rotation, reuse detection).
type Refresh struct {
	// Current is the SHA-256 hash of the refresh token that is good.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Current string `json:"current,omitempty"`
	// Previous is the SHA-256 hash of the token before it, which is good for a short grace only.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Previous string `json:"previous,omitempty"`
	// RotatedAt is when Current took the place of Previous.
	// +optional
	RotatedAt metav1.Time `json:"rotatedAt,omitzero"`
	// Generation counts the rotations.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation,omitempty"`
}

// SessionList is a list of Sessions.
//
// +kubebuilder:object:root=true
type SessionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Session `json:"items"`
}
