package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Lockout counts the attempts to log in as one user that failed, so that all replicas refuse further ones together, and a
// restart forgets none. Its name is the UID of the User. Places are kept as hashes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.user`
// +kubebuilder:printcolumn:name="Guesses",type=integer,JSONPath=`.spec.guesses.count`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Lockout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what was counted.
	// +required
	Spec LockoutSpec `json:"spec"`
}

// LockoutSpec is what was counted.
type LockoutSpec struct {
	// User is the name of the User.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	User string `json:"user"`
	// Failures are the attempts that failed or are under way, for each way to log in and place that they came from.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=64
	Failures []Failures `json:"failures,omitempty"`
	// Guesses are those of passwords, from all places that the user is not known to log in from.
	// +optional
	Guesses Count `json:"guesses,omitzero"`
	// Codes are those of second factors, from the same places.
	// +optional
	Codes Count `json:"codes,omitzero"`
	// Known are the places that the user has lately logged in from.
	// +optional
	// +listType=map
	// +listMapKey=place
	// +kubebuilder:validation:MaxItems=16
	Known []KnownPlace `json:"known,omitempty"`
}

// Count is a number of attempts within a while.
type Count struct {
	// Count is how many.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count,omitempty"`
	// Since is when the first of them was.
	// +optional
	Since metav1.Time `json:"since,omitzero"`
}

// Failures are the failed attempts of one way to log in, from one place.
type Failures struct {
	// Key is a hash of the way and the place, in hexadecimal.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{16}$`
	Key string `json:"key"`
	// Count is how many they are, and Since when the first was.
	Count `json:",inline"`
}

// KnownPlace is a place that the user has logged in from.
type KnownPlace struct {
	// Place is a hash of the address, in hexadecimal.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{16}$`
	Place string `json:"place"`
	// At is about when he last did.
	// +required
	At metav1.Time `json:"at"`
}

// LockoutList is a list of Lockouts.
//
// +kubebuilder:object:root=true
type LockoutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Lockout `json:"items"`
}
