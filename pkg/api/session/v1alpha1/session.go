package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Session is one login of one user. Its name is the session id that tokens carry; while the object
// exists and has not expired, tokens that name it may be good, and deleting it ends the login on
// every replica. It holds hashes and sealed values only: reading it gives no one a way in.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.user`
// +kubebuilder:printcolumn:name="Client",type=string,JSONPath=`.spec.client`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expiresAt`
type Session struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says who logged in and how. It stays as it was made, but for a Registration whose User
	// has come.
	// +required
	Spec SessionSpec `json:"spec"`
	// Phase says what the session is besides good; empty where it is that and no more.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Groups are those that the identity provider gave, as of the last login or refresh. They count
	// besides the User's own.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	Groups []string `json:"groups,omitempty"`
	// Upstream is what the identity provider wants to see again.
	// +optional
	Upstream Upstream `json:"upstream,omitzero"`
	// Consents are what the user lets clients have, in a browser's session.
	// +optional
	// +listType=map
	// +listMapKey=client
	// +kubebuilder:validation:MaxItems=64
	Consents []Consent `json:"consents,omitempty"`
	// Refresh is the state of the session's refresh token; absent where none was issued.
	// It is written with the object, so that a rotation is one atomic update.
	// +optional
	Refresh Refresh `json:"refresh,omitzero"`
	// LastUsedAt is about when a token of the session was last seen.
	// +optional
	LastUsedAt metav1.Time `json:"lastUsedAt,omitzero"`
}

// Phase is a state of a session in which no token of it is good.
//
// +kubebuilder:validation:Enum=Waiting;Denied;Ended
type Phase string

// The phases.
const (
	// PhaseWaiting is a session that was approved for a device, which has not fetched it yet.
	PhaseWaiting Phase = "Waiting"
	// PhaseDenied tells a device that somebody said no.
	PhaseDenied Phase = "Denied"
	// PhaseEnded keeps the name of a session from being used again, as long as its code lives; and of a browser's session, what
	// the identity provider can be asked with, as long as sessions live that were opened in it and outlive it.
	PhaseEnded Phase = "Ended"
)

// Upstream is what an identity provider wants to see again, sealed: only this server can read it.
type Upstream struct {
	// Hint is for the logout there.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	Hint string `json:"hint,omitempty"`
	// Refresh is for asking about the person again.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	Refresh string `json:"refresh,omitempty"`
	// AskedAt is when the person was last asked about for a session that was opened in this one.
	// +optional
	AskedAt metav1.Time `json:"askedAt,omitzero"`
}

// Consent is what a user lets a client have.
type Consent struct {
	// Client is the name of the OAuth client.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Client string `json:"client"`
	// Scopes are the scopes that it may have.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Scopes []string `json:"scopes,omitempty"`
}

// Registration is an identity that no User is linked to yet.
type Registration struct {
	// Provider is the identity provider, and Subject its own unchanging name of the person.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Provider string `json:"provider"`
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Subject string `json:"subject"`
	// Username, Email and DisplayName are what the provider calls the person.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Username string `json:"username,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Email string `json:"email,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	DisplayName string `json:"displayName,omitempty"`
}

// SessionSpec says who logged in and how.
type SessionSpec struct {
	// User is the name of the User; "client:<name>" for a session that a client has for itself, and
	// "system:pre-registration" for that of a Registration.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=320
	User string `json:"user"`
	// UserUID is the UID of the User at login; a User deleted and made again is another person.
	// +optional
	UserUID types.UID `json:"userUID,omitempty"`
	// Client is the name of the OAuth client that the session was opened for; empty for a person's
	// browser, in which he logs in to clients.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Client string `json:"client,omitempty"`
	// Provider is the identity provider that vouched for the user; empty for a local password.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Provider string `json:"provider,omitempty"`
	// Subject is the provider's own unchanging name of the person.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Subject string `json:"subject,omitempty"`
	// Registration is whom the session waits for a User of.
	// +optional
	Registration *Registration `json:"registration,omitempty"`
	// Parent is the session of the browser in which this one was opened. It ends with it, unless it
	// has the scope offline_access.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Parent string `json:"parent,omitempty"`
	// FromCode says that the name of the session follows from a code, which could come again: what is
	// left of the session then stays, in phase Ended, until the code is over.
	// +optional
	FromCode bool `json:"fromCode,omitempty"`
	// Sequence orders the sessions of a user by the time of their logins, in milliseconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Sequence int64 `json:"sequence,omitempty"`
	// Scopes are the scopes that were granted.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Scopes []string `json:"scopes,omitempty"`
	// AuthenticatedAt is when the user proved who he is, and Methods by what (RFC 8176).
	// +optional
	AuthenticatedAt metav1.Time `json:"authenticatedAt,omitzero"`
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=32
	Methods []string `json:"methods,omitempty"`
	// Source is the address that the login came from, and UserAgent what the browser called itself.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Source string `json:"source,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=256
	UserAgent string `json:"userAgent,omitempty"`
	// Credential is a fingerprint (a hash, never the value) of the credential that opened the
	// session. When the user's credential no longer has it, the session is over.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Credential string `json:"credential,omitempty"`
	// CreatedAt is when the session was opened.
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
