package idp

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The conditions of a provider.
const (
	// ConditionConfigured says whether the provider's configuration can be used.
	ConditionConfigured = "Configured"
	// ConditionReachable says whether the provider answered the last check.
	ConditionReachable = "Reachable"
	// ConditionVerified is set, to False, if the provider's certificate is not verified.
	ConditionVerified = "CertificateVerified"
)

// Status is the status of a provider. It contains no secret.
type Status struct {
	Entry *Entry
	// Source is where the provider is configured: a Secret, or a key of the file.
	Source string
	// Conditions are ConditionConfigured, ConditionReachable, and ConditionVerified if that is False.
	Conditions []metav1.Condition
	// Checked is the time of the last check; zero for never.
	Checked time.Time
}

// Status returns the status of the provider of that name, or nil.
func (d *Directory) Status(name string) *Status {
	def := d.current().by[name]
	if def == nil {
		return nil
	}
	configured := metav1.Condition{Type: ConditionConfigured, Status: metav1.ConditionTrue, Reason: "Valid",
		LastTransitionTime: metav1.NewTime(def.created)}
	if def.entry.Fault != nil {
		configured.Status, configured.Reason, configured.Message = metav1.ConditionFalse, "Invalid", def.entry.Fault.Error()
	}
	conditions := []metav1.Condition{configured, def.reach.condition(def.entry)}
	if def.unverified {
		conditions = append(conditions, metav1.Condition{Type: ConditionVerified, Status: metav1.ConditionFalse, Reason: "InsecureSkipVerify",
			Message:            "the provider's certificate is not verified (insecureSkipVerify): an attacker in the network can log in as any user",
			LastTransitionTime: metav1.NewTime(def.created)})
	}
	return &Status{Entry: def.entry, Source: def.source, Checked: def.reach.checked(), Conditions: conditions}
}
