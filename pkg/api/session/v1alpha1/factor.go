package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Factor is what one user proves himself with besides a password. Its name is the UID of the User. The secret of the
// authenticator app is sealed, recovery codes are hashed, and of passkeys it has public keys.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.user`
// +kubebuilder:printcolumn:name="App-Since",type=date,JSONPath=`.spec.totp.confirmedAt`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Factor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user enrolled.
	// +required
	Spec FactorSpec `json:"spec"`
}

// FactorSpec is what the user enrolled.
type FactorSpec struct {
	// User is the name of the User.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	User string `json:"user"`
	// TOTP is the authenticator app (RFC 6238).
	// +optional
	TOTP *TOTP `json:"totp,omitempty"`
	// Recovery are the SHA-256 hashes, in hexadecimal, of the recovery codes that are left. A code has 80 random bits.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Pattern=`^[0-9a-f]{64}$`
	Recovery []string `json:"recovery,omitempty"`
	// Passkeys are the WebAuthn credentials.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=16
	Passkeys []Passkey `json:"passkeys,omitempty"`
}

// TOTP is an authenticator app.
type TOTP struct {
	// Secret is the shared secret, sealed with the keys of ks-apiserver.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Secret string `json:"secret"`
	// SealedAt is when it was last sealed; it is sealed again before the key that sealed it goes.
	// +required
	SealedAt metav1.Time `json:"sealedAt"`
	// ConfirmedAt is when the user showed a first code of it.
	// +required
	ConfirmedAt metav1.Time `json:"confirmedAt"`
	// LastStep is the time step of the last code that was used. Older ones, and itself, are used up (RFC 6238, 5.2).
	// +optional
	// +kubebuilder:validation:Minimum=0
	LastStep int64 `json:"lastStep,omitempty"`
}

// Passkey is one WebAuthn credential.
type Passkey struct {
	// ID is the credential's, in base64url.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1400
	ID string `json:"id"`
	// Name is what the user calls it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`
	// Credential is the public key and what else is checked at a login, as JSON.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	Credential string `json:"credential"`
	// CreatedAt is when it was added.
	// +required
	CreatedAt metav1.Time `json:"createdAt"`
	// UsedAt is when it was last used.
	// +optional
	UsedAt metav1.Time `json:"usedAt,omitzero"`
	// LastChallenge is when the challenge that was last answered was made. Older ones, and itself, are used up.
	// +optional
	LastChallenge metav1.MicroTime `json:"lastChallenge,omitzero"`
}

// FactorList is a list of Factors.
//
// +kubebuilder:object:root=true
type FactorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Factor `json:"items"`
}
