package iam

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

const (
	// sweepEvery is the time between looks for sessions that are over.
	sweepEvery = 30 * time.Second
	// sweepAtMost bounds the deletions of one look, and sweepPause their rate; every replica
	// sweeps, so that one is enough.
	sweepAtMost = 200
	sweepPause  = 20 * time.Millisecond
	// orphanAge is how old a session is at least whose user is found missing or changed: younger
	// ones may be ahead of the users' feed.
	orphanAge = 5 * time.Minute
)

// End ends a session on this replica now, and on the others as their feeds tell them. It is done once
// the API has taken it; a session that is over already is no error.
func (s *Sessions) End(ctx context.Context, name, reason string) error {
	s.mu.RLock()
	r := s.byName[name]
	s.mu.RUnlock()
	var uid types.UID
	if r != nil {
		uid = r.uid
	}
	if err := s.API.Delete(ctx, name, uid); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("%w: end a session: %w", ErrUnavailable, err)
	}
	s.Delete("", name)
	s.ended.WithLabelValues(reason).Inc()
	if r != nil {
		klog.InfoS("Session ended", "user", r.User, "client", r.Client, "reason", reason)
	}
	return nil
}

// Run deletes the objects of sessions that are over, until ctx ends.
func (s *Sessions) Run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.kick:
		}
		s.Sweep(ctx)
	}
}

// Sweep deletes what is over now, up to a bound.
func (s *Sessions) Sweep(ctx context.Context) {
	list := s.over()
	if len(list) == sweepAtMost {
		s.wake() // there is more
	}
	for i, d := range list {
		if i > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(sweepPause):
			}
		}
		if err := s.API.Delete(ctx, d.record.Name, d.record.uid); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			klog.ErrorS(err, "Deleting a session that is over failed; it stays refused here, and is tried again", "session", d.record.Name)
			return
		}
		s.Delete("", d.record.Name)
		s.ended.WithLabelValues(d.reason).Inc()
		klog.V(2).InfoS("Session ended", "user", d.record.User, "client", d.record.Client, "reason", d.reason)
	}
}

// wake has Run sweep soon.
func (s *Sessions) wake() {
	select {
	case s.kick <- struct{}{}:
	default: // it is about to
	}
}

// over lists what is to be deleted.
func (s *Sessions) over() []doom {
	now := s.Now()
	synced := s.Synced == nil || s.Synced()
	var out []doom
	var stale []string
	s.mu.RLock()
	for _, d := range s.doomed {
		out = append(out, d)
	}
	for name, r := range s.byName {
		if len(out) >= sweepAtMost {
			break
		}
		if !r.until.IsZero() && now.After(r.until) {
			stale = append(stale, name) // the feed never brought it: it is not there any more
			continue
		}
		if reason := s.endOf(r, now, synced); reason != "" {
			out = append(out, doom{record: r, reason: reason})
		}
	}
	s.mu.RUnlock()
	s.mu.Lock()
	for _, name := range stale {
		if r := s.byName[name]; r != nil && !r.until.IsZero() {
			s.forget(name)
		}
	}
	s.mu.Unlock()
	return slices.Clip(out[:min(len(out), sweepAtMost)])
}

// endOf says why a session is over, and "" where it is not.
func (s *Sessions) endOf(r *record, now time.Time, synced bool) string {
	if now.After(r.idleEnd(s.Lifetime(r.Client)).Add(s.Skew)) {
		return "expired"
	}
	if !synced || now.Sub(r.Created) < orphanAge {
		return ""
	}
	switch u := s.Users.ByName(r.User); {
	case u == nil || u.UID != r.UserUID:
		return "user deleted"
	case u.State == v1beta1.UserDisabled:
		return "user disabled"
	case u.credential != r.credential:
		return "password changed"
	}
	return ""
}
