package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
)

// Find returns a live session and its user, for a cookie that names it. Its errors are ErrOver and ErrUnavailable.
func (s *reader) Find(ctx context.Context, name string) (*Session, *iam.User, error) {
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

// bindToBrowser binds a new session to that of its browser: both are of one user and one provider, and end together.
func (s *reader) bindToBrowser(ctx context.Context, o *v1alpha1.Session) error {
	if o.Spec.Parent == "" {
		return nil
	}
	parent, _, err := s.Find(ctx, o.Spec.Parent)
	if err != nil {
		return fmt.Errorf("open a session in a browser: %w", err)
	}
	if parent.Client != "" || parent.UserUID != string(o.Spec.UserUID) {
		return fmt.Errorf("open a session in a browser: %w: it is another user's, or no browser's", iam.ErrOver)
	}
	if r, ok := s.known(o.Spec.Parent); ok && r.Provider != "" && o.Spec.Provider == r.Provider {
		o.Spec.Subject = r.subject // to ask about him when the browser's session is over
	}
	if !slices.Contains(o.Spec.Scopes, scopeOffline) && parent.Expires.Before(o.Spec.ExpiresAt.Time) {
		o.Spec.ExpiresAt = metav1.NewTime(parent.Expires)
	}
	return nil
}

// EndAll ends the sessions of a user, except one and those that were opened in it.
func (s *ender) EndAll(ctx context.Context, uid, except, reason string) error {
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

// Upstream returns what the provider of a session needs for the logout there; "" for nothing.
func (s *reader) Upstream(ctx context.Context, name string) (provider, hint string, err error) {
	o, err := s.API.Get(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return "", "", iam.ErrOver
	case err != nil:
		return "", "", fmt.Errorf("%w: read session: %w", iam.ErrUnavailable, err)
	}
	return o.Spec.Provider, s.unseal(name, o.Upstream.Hint), nil
}

// change edits the object of a session, again after a conflict. Its errors are that of edit, ErrOver and ErrUnavailable.
func (s *reader) change(ctx context.Context, name string, edit func(*v1alpha1.Session) error) error {
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
			return iam.ErrOver
		case err != nil:
			return fmt.Errorf("%w: change a session: %w", iam.ErrUnavailable, err)
		}
		if !keepsUpstreamToken(o) && s.learn(o) == nil {
			return iam.ErrOver
		}
		return nil
	}
	return fmt.Errorf("%w: others changed the session at the same time, again and again", iam.ErrUnavailable)
}
