package v1alpha1

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
)

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
