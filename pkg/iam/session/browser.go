package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

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

// bindToBrowser binds a new session to that of its browser, or of the console: both are of one user and one provider, and end together.
func (s *reader) bindToBrowser(ctx context.Context, o *v1alpha1.Session) error {
	if o.Spec.Parent == "" {
		return nil
	}
	parent, _, err := s.Find(ctx, o.Spec.Parent)
	if err != nil {
		return fmt.Errorf("open a session in a browser: %w", err)
	}
	if parent.Parent != "" || parent.UserUID != string(o.Spec.UserUID) {
		return fmt.Errorf("open a session in a browser: %w: it is another user's, or was opened in one itself", iam.ErrOver)
	}
	if r, ok := s.known(o.Spec.Parent); ok && r.Provider != "" && o.Spec.Provider == r.Provider {
		o.Spec.Subject = r.subject // to ask the provider about the user when the browser's session is over
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
	for _, name := range slices.Backward(list) { // sessions opened in a browser end first: then no upstream token is kept for them
		if err := s.End(ctx, name, reason); err != nil {
			failed = append(failed, err)
			if ctx.Err() != nil {
				break
			}
		}
	}
	return errors.Join(failed...)
}

// Upstream returns the hint that the provider of a session needs for the logout there; "" for nothing.
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

// change edits the object of a session, and tries again after a conflict. Its errors are that of edit, ErrOver and ErrUnavailable.
func (s *reader) change(ctx context.Context, name string, edit func(*v1alpha1.Session) error) error {
	var refused error
	o, err := s.rewrite(ctx, name, func(o *v1alpha1.Session) bool {
		refused = edit(o)
		return refused == nil
	})
	switch {
	case apierrors.IsNotFound(err):
		s.Delete("", name)
		return iam.ErrOver
	case err != nil:
		return fmt.Errorf("%w: change a session: %w", iam.ErrUnavailable, err)
	case refused != nil:
		return refused
	}
	if !keepsUpstreamToken(o) && s.learn(o) == nil {
		return iam.ErrOver
	}
	return nil
}

// rewrite reads the object of a session and writes it after edit, unless edit returns false. It tries again after a conflict. Its errors
// are those of the API, and errConflicts.
func (s *reader) rewrite(ctx context.Context, name string, edit func(*v1alpha1.Session) bool) (o *v1alpha1.Session, err error) {
	err = untilNoConflict(func() error {
		if o, err = s.API.Get(ctx, name); err != nil || !edit(o) {
			return err
		}
		o, err = s.API.Update(ctx, o)
		return err
	})
	return o, err
}

// maxConflicts bounds the attempts of one change. They follow one another without a pause: each reads the session first, and of the
// requests that conflict one has written.
const maxConflicts = 5

// errConflicts is no Conflict: the caller did not ask for a version.
var errConflicts = errors.New("others changed the session at the same time, again and again")

func untilNoConflict(attempt func() error) error {
	err := retry.RetryOnConflict(wait.Backoff{Steps: maxConflicts}, attempt)
	if apierrors.IsConflict(err) {
		return errConflicts
	}
	return err
}
