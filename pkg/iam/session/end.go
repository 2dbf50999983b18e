package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
)

const (
	// sweepEvery is the interval of Run.
	sweepEvery = 30 * time.Second
	// sweepAtMost bounds the deletions of one sweep, and sweepPause their rate; every replica sweeps.
	sweepAtMost, sweepPause = 200, 20 * time.Millisecond
	// orphanAge is the age from which a session of a missing or changed user is deleted: a younger one may be ahead of the users' feed.
	orphanAge = 5 * time.Minute
	// reasonTombstone is the reason for deleting a tombstone, whose session ended before, and reasonLoggedOut that of a session whose
	// browser's is over.
	reasonTombstone, reasonLoggedOut = "tomb", "browser logged out"
)

// End ends a session: on this replica at once, on others as their feeds tell them. A session that is over already is no error.
func (s *ender) End(ctx context.Context, name, reason string) error {
	s.mu.RLock()
	r := s.byName[name]
	s.mu.RUnlock()
	if err := s.remove(ctx, name, r); err != nil {
		return fmt.Errorf("%w: end a session: %w", iam.ErrUnavailable, err)
	}
	s.noteEnd(name, r, reason)
	return nil
}

// noteEnd removes a session whose object has been deleted.
func (s *ender) noteEnd(name string, r *cached, reason string) {
	s.dropped(name)
	s.ended.WithLabelValues(reason).Inc()
	if r != nil {
		klog.InfoS("Session ended", "user", r.User, "client", r.Client, "reason", reason)
	}
}

// remove deletes the object of a session, except for an upstream token that other sessions need.
func (s *ender) remove(ctx context.Context, name string, r *cached) error {
	if r != nil {
		if done, err := s.keepUpstreamToken(ctx, r); done || err != nil {
			return err
		}
	}
	return s.erase(ctx, name, r)
}

// erase deletes the object of a session; r is its known state, or nil. A name that a code could open again stays as a tombstone,
// in phase Ended. An object that does not exist is no error.
func (s *ender) erase(ctx context.Context, name string, r *cached) error {
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

// leaveTombstone reduces the object of a session to what reserves its name, if a code opened the session.
func (s *ender) leaveTombstone(ctx context.Context, name string) (done bool, err error) {
	_, err = s.rewrite(ctx, name, func(o *v1alpha1.Session) bool {
		ended := o.Phase == v1alpha1.PhaseEnded
		done = ended || o.Spec.FromCode && s.Now().Before(o.Spec.CreatedAt.Add(CodeLife+s.Skew))
		if ended || !done {
			return false
		}
		o.Phase, o.Refresh, o.Upstream, o.Groups, o.Consents = v1alpha1.PhaseEnded, v1alpha1.Refresh{}, v1alpha1.Upstream{}, nil, nil
		return true
	})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("mark session as ended: %w", err)
	}
	return done, nil
}

// Run deletes the objects of sessions that are over, until ctx ends.
func (s *ender) Run(ctx context.Context) {
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

// Sweep deletes the objects of sessions that are over, up to a limit.
func (s *ender) Sweep(ctx context.Context) {
	list, removed := s.over(), 0
	failed := map[string]bool{} // one backend that can't be reached must not delay the other
	for i, d := range list {
		if failed[prefixOf(d.record.Name)] || d.reason == reasonLoggedOut && s.mayGoOn(ctx, d.record.Parent) {
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
		removed++
		if d.reason != reasonTombstone {
			s.ended.WithLabelValues(d.reason).Inc()
			klog.V(2).InfoS("Session ended", "user", d.record.User, "client", d.record.Client, "reason", d.reason)
		}
	}
	if removed > 0 && len(list) == sweepAtMost { // there is more; where nothing can be deleted, the next tick is soon enough
		s.wake()
	}
}

// mayGoOn reports whether a browser's session is there, or may be: this replica may have lost sight of it while its feed was interrupted.
func (s *ender) mayGoOn(ctx context.Context, name string) bool {
	_, err := s.find(ctx, name)
	return !errors.Is(err, iam.ErrOver)
}

// EndAll ends the sessions of a user, except one and those that were opened in it. It ends those that are known here and returns an
// ErrUnavailable, where the user may have others: it has to be repeated then.
func (s *ender) EndAll(ctx context.Context, uid, except, reason string) error {
	var failed []error
	if s.Complete != nil { // before the list is read: what comes in between is in it
		if err := s.Complete(); err != nil {
			failed = append(failed, fmt.Errorf("%w: not all sessions are known: %w", iam.ErrUnavailable, err))
		}
	}
	s.mu.RLock()
	var list []string
	for _, p := range s.byUser[uid] {
		if r := s.byName[p.name]; except == "" || r.Name != except && r.Parent != except {
			list = append(list, p.name)
		}
	}
	s.mu.RUnlock()
	for _, name := range slices.Backward(list) { // sessions opened in a browser end first: then no upstream token is kept for them
		if failed = append(failed, s.End(ctx, name, reason)); ctx.Err() != nil {
			return errors.Join(append(failed, ctx.Err())...)
		}
	}
	return errors.Join(failed...)
}
