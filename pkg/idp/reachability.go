package idp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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

// How often, how long and how many at a time providers are checked.
const (
	checkEvery    = time.Minute
	checkTimeout  = 20 * time.Second
	checkParallel = 4
)

// watchReach checks whether the providers answer: new ones at once, and all of them every minute.
func (d *Directory) watchReach(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		all := false
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		case <-tick.C:
			all = true
		}
		d.checkAll(ctx, all)
	}
}

// checkAll checks the providers that were never checked, or all that are in use.
func (d *Directory) checkAll(ctx context.Context, all bool) {
	var group sync.WaitGroup
	slots := make(chan struct{}, checkParallel)
	for _, e := range d.Entries() {
		def := d.current().by[e.Name]
		if !e.Usable() || def == nil || !all && !def.reach.checked().IsZero() {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			_ = d.check(ctx, def) // the status has the error
		})
	}
	group.Wait()
}
