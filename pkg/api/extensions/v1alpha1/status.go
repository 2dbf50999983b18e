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
	// ConditionReachable says whether a backend answers.
	ConditionReachable = "Reachable"
	// ConditionVerified is False where the certificate of a backend is not verified, and absent otherwise.
	ConditionVerified = "Verified"
)

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
