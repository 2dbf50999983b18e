package iam

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
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
	// tombOver is the end of what was left of a session, which ended before.
	reasonTombstone = "tomb"
)

// End ends a session on this replica now, and on the others as their feeds tell them. It is done once
// the API has taken it; a session that is over already is no error.
func (s *Sessions) End(ctx context.Context, name, reason string) error {
	s.mu.RLock()
	r := s.byName[name]
	s.mu.RUnlock()
	if err := s.remove(ctx, name, r); err != nil {
		return fmt.Errorf("%w: end a session: %w", ErrUnavailable, err)
	}
	s.noteEnd(name, r, reason)
	return nil
}

// noteEnd has a session be over here whose object is taken away.
func (s *Sessions) noteEnd(name string, r *cached, reason string) {
	s.dropped(name)
	s.ended.WithLabelValues(reason).Inc()
	if r != nil {
		klog.InfoS("Session ended", "user", r.User, "client", r.Client, "reason", reason)
	}
}

// remove takes away the object of a session, but for what is to be kept of it.
func (s *Sessions) remove(ctx context.Context, name string, r *cached) error {
	if r != nil {
		if done, err := s.keepUpstreamToken(ctx, r); done || err != nil {
			return err
		}
	}
	return s.erase(ctx, name, r)
}

// erase takes away the object of a session; one that is away already is no error. r is what is known of it; nil
// for nothing. A name that a code could bring in again stays, in phase Ended.
func (s *Sessions) erase(ctx context.Context, name string, r *cached) error {
	if r == nil || r.fromCode && s.Now().Before(r.Created.Add(CodeLife+s.Skew)) {
		done, err := s.leaveTombstone(ctx, name)
		if done || err != nil {
			return err
		}
	}
	var uid types.UID
	if r != nil {
		uid = r.uid
	}
	if err := s.API.Delete(ctx, name, uid); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete session: %w", err)
	}
	return nil
}

// leaveTombstone leaves of a session no more than what keeps its name. It is not done where the session was not opened by a
// code.
func (s *Sessions) leaveTombstone(ctx context.Context, name string) (done bool, err error) {
	for range maxConflicts {
		o, err := s.API.Get(ctx, name)
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case err != nil:
			return false, fmt.Errorf("read session: %w", err)
		case o.Phase == v1alpha1.PhaseEnded:
			return true, nil
		case !o.Spec.FromCode || !s.Now().Before(o.Spec.CreatedAt.Add(CodeLife+s.Skew)):
			return false, nil
		}
		o.Phase, o.Refresh, o.Upstream, o.Groups, o.Consents = v1alpha1.PhaseEnded, v1alpha1.Refresh{}, v1alpha1.Upstream{}, nil, nil
		_, err = s.API.Update(ctx, o)
		if err == nil || apierrors.IsNotFound(err) {
			return true, nil
		}
		if !apierrors.IsConflict(err) {
			return false, fmt.Errorf("mark session as ended: %w", err)
		}
	}
	return false, errors.New("others changed the session at the same time, again and again")
}

// dropped notes that the object of a session is taken away.
func (s *Sessions) dropped(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(name)
	delete(s.pending, name)
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
		case <-s.wanted:
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
	failed := map[string]bool{} // a store that is lost must not keep the other waiting
	for i, d := range list {
		if failed[prefixOf(d.record.Name)] {
			continue
		}
		if i > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(sweepPause):
			}
		}
		if err := s.remove(ctx, d.record.Name, d.record); err != nil {
			klog.ErrorS(err, "Deleting a session that is over failed; it stays refused here, and is tried again", "session", d.record.Name)
			failed[prefixOf(d.record.Name)] = true
			continue
		}
		s.dropped(d.record.Name)
		if d.reason == reasonTombstone {
			continue
		}
		s.ended.WithLabelValues(d.reason).Inc()
		klog.V(2).InfoS("Session ended", "user", d.record.User, "client", d.record.Client, "reason", d.reason)
	}
}

// wake has Run sweep soon.
func (s *Sessions) wake() {
	select {
	case s.wanted <- struct{}{}:
	default: // it is about to
	}
}

// over lists what is to be deleted.
func (s *Sessions) over() []deletion {
	now := s.Now()
	synced := s.synced()
	var out []deletion
	var stale []string
	s.mu.RLock()
	for _, d := range s.pending {
		out = append(out, d)
	}
	for name, t := range s.tombstones {
		if now.After(t.until) || synced && s.unneeded(name, t, now) {
			out = append(out, deletion{record: &cached{Session: Session{Name: name}, uid: t.uid}, reason: reasonTombstone})
		}
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
			out = append(out, deletion{record: r, reason: reason})
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

// endOf says why a session is over, and "" where it is not. The lock is held.
func (s *Sessions) endOf(r *cached, now time.Time, synced bool) string {
	end := r.Expires
	if synced {
		end = r.idleEnd(s.Lifetime(r.Client))
	}
	if now.After(end.Add(s.Skew)) {
		return "expired"
	}
	if !synced || now.Sub(r.Created) < orphanAge {
		return ""
	}
	switch {
	case r.bound() && s.byName[r.Parent] == nil && (prefixOf(r.Parent) == "" || s.Prefix != nil && prefixOf(r.Parent) == s.Prefix()):
		return "browser logged out"
	case r.Provider != "" && s.Enabled != nil && !s.Enabled(r.Provider):
		return "provider disabled"
	case r.self != nil && r.Registration != nil:
		return ""
	case r.self != nil:
		if _, err := s.userOf(r); err != nil {
			return "client changed"
		}
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
