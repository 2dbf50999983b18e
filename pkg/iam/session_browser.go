package iam

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
)

// maxConsents bounds the clients whose consents a browser's session remembers, and maxConsented the scopes of each.
const (
	maxConsents  = 64
	maxConsented = 64
)

// Find returns a session that lives now, and its user: for a cookie that names it. Its error is ErrOver or ErrUnavailable.
func (s *Sessions) Find(ctx context.Context, name string) (*Session, *User, error) {
	r, err := s.find(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	u, err := s.validate(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	return &r.Session, u, nil
}

// bindToBrowser binds a new session to that of its browser: it is of the same user, whom the same provider knows, and does not outlive it.
func (s *Sessions) bindToBrowser(ctx context.Context, o *v1alpha1.Session) error {
	if o.Spec.Parent == "" {
		return nil
	}
	parent, _, err := s.Find(ctx, o.Spec.Parent)
	if err != nil {
		return fmt.Errorf("open a session in a browser: %w", err)
	}
	if parent.Client != "" || parent.UserUID != string(o.Spec.UserUID) {
		return fmt.Errorf("open a session in a browser: %w: it is another user's, or no browser's", ErrOver)
	}
	if r, ok := s.known(o.Spec.Parent); ok && r.Provider != "" && o.Spec.Provider == r.Provider {
		o.Spec.Subject = r.subject // to ask about him when the browser's session is over
	}
	if !slices.Contains(o.Spec.Scopes, scopeOffline) && parent.Expires.Before(o.Spec.ExpiresAt.Time) {
		o.Spec.ExpiresAt = metav1.NewTime(parent.Expires)
	}
	return nil
}

// Of returns the sessions of a user, the newest first.
func (s *Sessions) Of(uid string) []*Session {
	s.mu.RLock()
	list := s.live(uid)
	s.mu.RUnlock()
	now := s.Now()
	var out []*Session
	for _, r := range slices.Backward(list) {
		if now.Before(r.idleEnd(s.Lifetime(r.Client))) {
			out = append(out, &r.Session)
		}
	}
	return out
}

// EndAll ends the sessions of a user, but for the one that is named and what was opened in it.
func (s *Sessions) EndAll(ctx context.Context, uid, except, reason string) error {
	s.mu.RLock()
	var list []string
	for _, p := range s.byUser[uid] {
		if r := s.byName[p.name]; except == "" || r.Name != except && r.Parent != except {
			list = append(list, p.name)
		}
	}
	s.mu.RUnlock()
	var failed []error
	for _, name := range slices.Backward(list) { // what was opened in a browser goes first: then nothing is kept for it
		if err := s.End(ctx, name, reason); err != nil {
			failed = append(failed, err)
			if ctx.Err() != nil {
				break
			}
		}
	}
	return errors.Join(failed...)
}

// Upstream returns what the provider of a session wants to see at the logout there; "" for nothing.
func (s *Sessions) Upstream(ctx context.Context, name string) (provider, hint string, err error) {
	o, err := s.API.Get(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return "", "", ErrOver
	case err != nil:
		return "", "", fmt.Errorf("%w: read session: %w", ErrUnavailable, err)
	}
	return o.Spec.Provider, s.unseal(name, o.Upstream.Hint), nil
}

// Consent remembers in a browser's session that its user lets a client have scopes.
func (s *Sessions) Consent(ctx context.Context, session, client string, scopes []string) error {
	return s.change(ctx, session, func(o *v1alpha1.Session) error {
		if o.Spec.Client != "" || o.Phase != "" {
			return fmt.Errorf("remember a consent: %w: it is no browser's session", ErrOver)
		}
		o.Consents = consented(o.Consents, client, scopes)
		return nil
	})
}

// consented adds a consent to a list. What was added last stays longest.
func consented(list []v1alpha1.Consent, client string, scopes []string) []v1alpha1.Consent {
	one := v1alpha1.Consent{Client: client}
	var out []v1alpha1.Consent
	for _, c := range list {
		if c.Client == client {
			one.Scopes = slices.Clone(c.Scopes)
			continue
		}
		out = append(out, c)
	}
	for _, scope := range scopes {
		if !slices.Contains(one.Scopes, scope) && len(one.Scopes) < maxConsented {
			one.Scopes = append(one.Scopes, scope)
		}
	}
	return append(out[max(0, len(out)-maxConsents+1):], one)
}

// Consented tells whether the user of a browser's session lets a client have all of the scopes.
func (s *Sessions) Consented(session, client string, scopes []string) bool {
	s.mu.RLock()
	r := s.byName[session]
	s.mu.RUnlock()
	if r == nil {
		return false
	}
	for _, c := range r.consents {
		if c.Client == client {
			return !slices.ContainsFunc(scopes, func(scope string) bool { return !slices.Contains(c.Scopes, scope) })
		}
	}
	return false
}

// change edits the object of a session, again where others changed it at the same time. Its errors are that of edit, ErrOver and
// ErrUnavailable.
func (s *Sessions) change(ctx context.Context, name string, edit func(*v1alpha1.Session) error) error {
	for range maxConflicts {
		o, err := s.API.Get(ctx, name)
		if err == nil {
			if err := edit(o); err != nil {
				return err
			}
			o, err = s.API.Update(ctx, o)
		}
		switch {
		case apierrors.IsConflict(err):
			continue
		case apierrors.IsNotFound(err):
			s.Delete("", name)
			return ErrOver
		case err != nil:
			return fmt.Errorf("%w: change a session: %w", ErrUnavailable, err)
		}
		if !keepsUpstreamToken(o) && s.learn(o) == nil {
			return ErrOver
		}
		return nil
	}
	return fmt.Errorf("%w: others changed the session at the same time, again and again", ErrUnavailable)
}
