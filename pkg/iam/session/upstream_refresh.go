package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// upstreamTimeout bounds how long a refresh waits for the identity provider.
	upstreamTimeout = 3 * time.Second
	// askAgain is the age from which the provider is asked about a browser's user again. Sessions opened in the browser share the answer.
	askAgain = time.Minute
)

// errAsked says that another session of the same browser has the provider's answer already.
var errAsked = errors.New("the identity provider was asked a moment ago")

// askUpstream asks the provider about the session's user after the rotation: so only one of many parallel refreshes asks, and a refresh
// token that the provider may rotate is used once. Without an answer the session stays as it is.
func (s *rotation) askUpstream(ctx context.Context, o *v1alpha1.Session, r *cached) (*cached, error) {
	switch {
	case s.Refresher == nil || r.Provider == "" || r.self != nil:
		return r, nil
	case r.Parent != "":
		return s.askParent(ctx, o, r)
	case o.Spec.Subject == "":
		return r, nil
	}
	return s.askFor(ctx, o, r)
}

// askParent updates the groups of a session that was opened in a browser. One of the browser's sessions asks the provider, with the
// upstream token of the browser's session or of its reduced object; without either, with the session's own subject.
func (s *rotation) askParent(ctx context.Context, own *v1alpha1.Session, r *cached) (*cached, error) {
	ctx = context.WithoutCancel(ctx)
	var parent *v1alpha1.Session
	err := s.change(ctx, r.Parent, func(o *v1alpha1.Session) error {
		if parent = o; o.Phase != "" && !keepsUpstreamToken(o) {
			return iam.ErrOver
		}
		if now := s.Now(); now.Sub(o.Upstream.AskedAt.Time) >= askAgain {
			o.Upstream.AskedAt = metav1.NewTime(now)
			return nil
		}
		return errAsked
	})
	var groups []string
	switch {
	case err == nil:
		p := newCached(parent)
		if parent.Spec.Subject != "" {
			if p, err = s.askFor(ctx, parent, p); err != nil { // the browser's session is ended, and this one with it, whatever its scopes are
				return nil, errors.Join(err, s.End(ctx, r.Name, "unknown to the identity provider"))
			}
		}
		groups = p.Groups
	case errors.Is(err, errAsked):
		groups = parent.Groups
	case errors.Is(err, iam.ErrOver) && (parent == nil || parent.Phase != ""):
		return s.askFor(ctx, own, r)
	default: // it could not be read, or is about to end
		return r, nil // the next refresh asks
	}
	if slices.Equal(groups, r.Groups) {
		return r, nil
	}
	return s.keepUpstream(ctx, r, groups, "", ""), nil
}

// askFor asks the provider of a session with the session's own upstream token and subject.
func (s *rotation) askFor(ctx context.Context, o *v1alpha1.Session, r *cached) (*cached, error) {
	ctx = context.WithoutCancel(ctx) // the provider's answer may be usable only once, so it is stored even if the caller leaves
	ask, cancel := context.WithTimeout(ctx, upstreamTimeout)
	defer cancel()
	before := s.unseal(o.Name, o.Upstream.Refresh)
	groups, refresh, hint, err := s.Refresher(ask, &r.Session, o.Spec.Subject, before)
	switch {
	case errors.Is(err, idp.ErrGone):
		s.upstream.WithLabelValues("gone").Inc()
		return nil, s.disowned(ctx, r, "unknown to the identity provider", err)
	case errors.Is(err, idp.ErrUnaskable):
		s.upstream.WithLabelValues("unaskable").Inc()
		// The session has outlived that of its browser, and would live on even if the user were removed at the provider.
		if r.Parent != "" || keepsUpstreamToken(o) {
			return nil, s.disowned(ctx, r, "the identity provider can't be asked", err)
		}
		return r, nil
	case err != nil:
		s.upstream.WithLabelValues("failed").Inc()
		klog.V(2).InfoS("An identity provider did not say who a person is now; the session goes on with the groups known before",
			"provider", r.Provider, "user", r.User, "reason", err)
		if refresh != "" && refresh != before { // the provider failed after it had issued the token, and may not take the former one again
			return s.keepUpstream(ctx, r, o.Groups, refresh, ""), nil
		}
		return r, nil
	}
	s.upstream.WithLabelValues("ok").Inc()
	groups = iam.SessionGroups(r.User, groups)
	if slices.Equal(groups, r.Groups) && hint == "" && (refresh == "" || refresh == before) {
		return r, nil
	}
	return s.keepUpstream(ctx, r, groups, refresh, hint), nil
}

// disowned ends a session whose user the provider no longer confirms, and returns the answer to the refresh.
func (s *rotation) disowned(ctx context.Context, r *cached, reason string, err error) error {
	if err := s.erase(ctx, r.Name, r); err != nil {
		return fmt.Errorf("%w: end a session: %w", iam.ErrUnavailable, err)
	}
	s.noteEnd(r.Name, r, reason)
	return fmt.Errorf("%w: %w", iam.ErrRefresh, err)
}

// Renew updates the groups and the upstream token of a browser's session after its user logged in again by the same provider. Its errors
// are ErrUnavailable and ErrOver, the latter also if the provider now knows the user by another subject.
func (s *rotation) Renew(ctx context.Context, name string, p *iam.AuthnResult) (*Session, error) {
	if p.Provider != "" {
		err := s.change(ctx, name, func(o *v1alpha1.Session) error {
			if o.Spec.Client != "" || o.Phase != "" || p.User == nil || string(o.Spec.UserUID) != p.User.UID ||
				o.Spec.Provider != p.Provider || o.Spec.Subject != status.Clip(p.Subject, maxIdentity) {
				return fmt.Errorf("renew the session of a browser: %w: it is of another login", iam.ErrOver)
			}
			now := s.Now()
			o.Groups, o.Upstream.AskedAt = iam.SessionGroups(o.Spec.User, p.Groups), metav1.NewTime(now)
			return s.seal(o, p.Hint, p.Refresh, now)
		})
		if err != nil {
			return nil, err
		}
	}
	sess, _, err := s.Find(ctx, name)
	return sess, err
}

// keepUpstream writes the provider's answer. If that fails, the session keeps the former groups.
func (s *rotation) keepUpstream(ctx context.Context, r *cached, groups []string, refresh, hint string) *cached {
	ctx, cancel := context.WithTimeout(ctx, upstreamTimeout)
	defer cancel()
	var next *v1alpha1.Session
	err := s.change(ctx, r.Name, func(o *v1alpha1.Session) error {
		next, o.Groups = o, groups
		if keepsUpstreamToken(o) {
			hint = "" // no logout needs it any more
		}
		return s.seal(o, hint, refresh, s.Now())
	})
	if err != nil {
		s.upstream.WithLabelValues("lost").Inc()
		klog.ErrorS(err, "What an identity provider said of a person was not stored; the session goes on with the groups known before",
			"provider", r.Provider, "user", r.User)
		return r
	}
	if now, ok := s.known(r.Name); ok {
		return now
	}
	return newCached(next)
}
