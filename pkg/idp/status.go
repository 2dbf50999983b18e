package idp

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// Check checks now whether a provider answers and its configuration is right. Its error says what to change.
func (d *Directory) Check(ctx context.Context, name string) error {
	def := d.current().by[name]
	switch {
	case def == nil:
		return fmt.Errorf("there is no identity provider %q", name)
	case def.entry.Fault != nil:
		return def.entry.Fault
	}
	return d.check(ctx, def)
}

func (d *Directory) check(ctx context.Context, def *definition) error {
	limited, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err := def.entry.Provider.Check(limited)
	if ctx.Err() != nil { // the caller is gone: that says nothing about the provider
		return err
	}
	now := time.Now
	if d.options.Now != nil {
		now = d.options.Now
	}
	def.reach.note(err, now())
	return err
}

// reach is the result of the checks of a provider. It stays with the provider when the display name changes.
type reach struct {
	mu          sync.Mutex
	at, changed time.Time
	err         error
}

func (r *reach) note(err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || (err == nil) != (r.err == nil) {
		r.changed = now
	}
	r.at, r.err = now, err
}

func (r *reach) checked() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

func (r *reach) condition(e *Entry) metav1.Condition {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := metav1.Condition{Type: ConditionReachable, Status: metav1.ConditionUnknown, Reason: "NotChecked",
		LastTransitionTime: metav1.NewTime(r.changed)}
	switch {
	case !e.Usable():
		c.Reason = "NotInUse"
	case r.at.IsZero():
	case r.err == nil:
		c.Status, c.Reason = metav1.ConditionTrue, "Answers"
	case errors.Is(r.err, ErrUnavailable):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Unavailable", r.err.Error()
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Refused", r.err.Error()
	}
	return c
}
