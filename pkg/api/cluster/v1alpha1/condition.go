package v1alpha1

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The conditions of a Cluster.
const (
	// ClusterInitialized: the member was seen and taken in.
	ClusterInitialized ClusterConditionType = "Initialized"
	// ClusterAgentAvailable: the agent of a proxied member is connected.
	ClusterAgentAvailable ClusterConditionType = "AgentAvailable"
	// ClusterKSCoreReady: the software in the member runs.
	ClusterKSCoreReady ClusterConditionType = "KSCoreReady"
	// ClusterReady: requests can be sent to it.
	ClusterReady ClusterConditionType = "Ready"
	// ClusterSchedulable: things can be placed in it.
	ClusterSchedulable ClusterConditionType = "Schedulable"
	// ClusterSynced: it has all that its hub keeps there.
	ClusterSynced ClusterConditionType = "Synced"
	// ClusterVersionSupported: its hub works with its release.
	ClusterVersionSupported ClusterConditionType = "VersionSupported"
	// ClusterSharedSecret: requests go there with tokens that are signed by a secret which it shares with its hub.
	ClusterSharedSecret ClusterConditionType = "SharedSecret"
	// ClusterKubeConfigCertExpiresInSevenDays: its kubeconfig wants renewal.
	ClusterKubeConfigCertExpiresInSevenDays ClusterConditionType = "KubeConfigCertExpiresInSevenDays"
)

// ClusterConditionType names a condition of a Cluster.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=316
type ClusterConditionType string

// ClusterCondition is one thing that is known of a cluster.
type ClusterCondition struct {
	// Type is what is known about.
	// +required
	Type ClusterConditionType `json:"type"`
	// Status is True, False or Unknown.
	// +required
	// +kubebuilder:validation:Enum="True";"False";Unknown
	Status corev1.ConditionStatus `json:"status"`
	// LastUpdateTime is when it was last looked at.
	// +optional
	LastUpdateTime metav1.Time `json:"lastUpdateTime,omitzero"`
	// LastTransitionTime is when it last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	// Reason is one word.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// Condition returns a condition of a cluster; nil where nothing is known of it.
func (s *ClusterStatus) Condition(of ClusterConditionType) *ClusterCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == of {
			return &s.Conditions[i]
		}
	}
	return nil
}

// IsTrue reports whether a condition of a cluster is true.
func (s *ClusterStatus) IsTrue(of ClusterConditionType) bool {
	c := s.Condition(of)
	return c != nil && c.Status == corev1.ConditionTrue
}

// WhyNotReady returns why no request is to be sent to a cluster; "" where requests can be.
func (c *Cluster) WhyNotReady() string {
	ready := c.Status.Condition(ClusterReady)
	switch {
	case !c.DeletionTimestamp.IsZero():
		return "it is leaving the fleet"
	case !c.Spec.Enable:
		return "it is disabled (spec.enable)"
	case ready == nil:
		return "it has not joined yet"
	case ready.Status != corev1.ConditionTrue:
		return cmp.Or(ready.Message, "it is not ready")
	}
	return ""
}
