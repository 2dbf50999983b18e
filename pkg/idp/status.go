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
	// ConditionConfigured says whether its configuration can be used.
	ConditionConfigured = "Configured"
	// ConditionReachable says whether it answered when it was last asked.
	ConditionReachable = "Reachable"
	// ConditionVerified is there, and False, where the provider's certificate is not verified.
	ConditionVerified = "CertificateVerified"
)

// Status is how a provider is. It holds no secret.
type Status struct {
	Entry *Entry
	// Source says where the provider is configured: a Secret, or a key of the file.
	Source string
	// Conditions are ConditionConfigured, ConditionReachable, and ConditionVerified where that is False.
	Conditions []metav1.Condition
	// Checked is when it was last asked whether it answers; zero for never.
	Checked time.Time
}

// Status returns how the provider of that name is, or nil where there is none.
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
			Message:            "the provider's certificate is not verified (insecureSkipVerify): somebody on the way to it can log in as anybody",
			LastTransitionTime: metav1.NewTime(def.created)})
	}
	return &Status{Entry: def.entry, Source: def.source, Checked: def.reach.checked(), Conditions: conditions}
}

// Check asks a provider now whether it answers and its configuration is right. Its error says what to change.
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
	if ctx.Err() != nil { // whoever asked is gone: that says nothing about the provider
		return err
	}
	now := time.Now
	if d.options.Now != nil {
		now = d.options.Now
	}
	def.reach.note(err, now())
	return err
}

// reach is what became of the questions whether a provider answers. It stays with the provider when its name on pages
// changes.
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
