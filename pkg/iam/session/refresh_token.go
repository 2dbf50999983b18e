package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/token"
)

// Refresh takes a client's refresh token, and returns its session, its user, and the next refresh token (RFC 9700, 4.14.2: rotation, and
// the end of the session on reuse).
//
// Clients refresh in parallel, and lose answers. So the previous token gets the current one, unchanged, for a grace period; and a token
// that is younger than the grace period is not rotated again, or a third caller would have a token two rotations old. The first rotation
// never waits.
//
// admit may refuse a session whose token is valid otherwise, before anything is written.
func (s *rotation) Refresh(ctx context.Context, client, refresh string, admit func(*Session) error) (*Session, *iam.User, string, error) {
	sess, u, next, err := s.refresh(ctx, client, refresh, admit)
	s.refreshes.WithLabelValues(refreshResult(err)).Inc()
	return sess, u, next, err
}

func (s *rotation) refresh(ctx context.Context, client, refresh string, admit func(*Session) error) (sess *Session, u *iam.User,
	next string, err error) {
	t, err := token.ParseRefresh(refresh)
	if err != nil || !s.Keys.KeySet().MadeRefresh(t, s.Now()) {
		return nil, nil, "", fmt.Errorf("%w: %w", iam.ErrRefresh, errors.Join(err, errors.New("not made here")))
	}
	err = untilNoConflict(func() error { // after a conflict the token is the previous one, which needs no write
		sess, u, next, err = s.attempt(ctx, client, refresh, t, admit)
		return err
	})
	if errors.Is(err, errConflicts) {
		err = fmt.Errorf("%w: %w", iam.ErrUnavailable, err)
	}
	return sess, u, next, err
}

// attempt compares the token with the session as it is stored now, since an outdated cache must not end a session.
func (s *rotation) attempt(ctx context.Context, client, refresh string, t token.Refresh, admit func(*Session) error) (*Session,
	*iam.User, string, error) {
	o, err := s.API.Get(ctx, t.Session)
	if apierrors.IsNotFound(err) {
		s.Delete("", t.Session)
		return nil, nil, "", fmt.Errorf("%w: %w", iam.ErrRefresh, iam.ErrOver)
	}
	if err != nil {
		return nil, nil, "", fmt.Errorf("%w: read session: %w", iam.ErrUnavailable, err)
	}
	r := s.learn(o)
	u, err := s.mayRefresh(ctx, r, client)
	if err != nil {
		return nil, nil, "", err
	}
	// r may be newer than o, if another request has rotated since the read: the rotation below then conflicts, and is tried again.
	now, hash := s.Now(), token.HashRefresh(refresh)
	current, previous := hash == r.current, hash == r.previous && s.inGrace(r, now)
	if !current && !previous {
		if t.Generation < r.generation {
			return nil, nil, "", s.reused(ctx, r)
		}
		return nil, nil, "", fmt.Errorf("%w: the session does not know it", iam.ErrRefresh)
	}
	if err := admit(&r.Session); err != nil {
		return nil, nil, "", err
	}
	if r.Registration != nil {
		return s.registered(ctx, o, r, now)
	}
	if current && (r.generation == 1 || !s.inGrace(r, now)) {
		return s.rotate(ctx, o, r, u, now)
	}
	if next := s.Keys.KeySet().SameRefresh(r.Name, r.generation, r.current); next != "" {
		return &r.Session, u, next, nil
	}
	return nil, nil, "", fmt.Errorf("%w: its successor's key is gone", iam.ErrRefresh)
}

// mayRefresh returns the user of a session that its client may still refresh.
func (s *rotation) mayRefresh(ctx context.Context, r *cached, client string) (*iam.User, error) {
	if r == nil {
		return nil, fmt.Errorf("%w: %w", iam.ErrRefresh, iam.ErrOver)
	}
	if r.Client != client {
		return nil, fmt.Errorf("%w: it was issued to another client", iam.ErrRefresh)
	}
	u, err := s.validate(ctx, r)
	if errors.Is(err, iam.ErrUnavailable) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", iam.ErrRefresh, err)
	}
	if !s.Now().Before(r.idleEnd(s.Lifetime(client))) {
		if !s.synced() {
			return nil, fmt.Errorf("%w: how long sessions of the client live is not known yet", iam.ErrUnavailable)
		}
		return nil, fmt.Errorf("%w: the session was not used for too long", iam.ErrRefresh)
	}
	return u, nil
}

// rotate writes the next generation. A conflict means that another request did so first.
func (s *rotation) rotate(ctx context.Context, o *v1alpha1.Session, r *cached, u *iam.User, now time.Time) (*Session, *iam.User,
	string, error) {
	next, err := s.Keys.KeySet().NewRefresh(r.Name, r.generation+1, now)
	if err != nil {
		return nil, nil, "", fmt.Errorf("refresh a session: %w", err)
	}
	o = o.DeepCopy()
	t := metav1.NewTime(now)
	o.Refresh = v1alpha1.Refresh{Current: token.HashRefresh(next), Previous: r.current, RotatedAt: t, Generation: r.generation + 1}
	o.LastUsedAt = t
	o, err = s.API.Update(ctx, o)
	switch {
	case apierrors.IsConflict(err):
		return nil, nil, "", err
	case apierrors.IsNotFound(err):
		s.Delete("", r.Name)
		return nil, nil, "", fmt.Errorf("%w: %w", iam.ErrRefresh, iam.ErrOver)
	case err != nil:
		return nil, nil, "", fmt.Errorf("%w: refresh a session: %w", iam.ErrUnavailable, err)
	}
	if r = s.learn(o); r == nil {
		return nil, nil, "", fmt.Errorf("%w: %w", iam.ErrRefresh, iam.ErrOver)
	}
	if r, err = s.askUpstream(ctx, o, r); err != nil {
		return nil, nil, "", err
	}
	return &r.Session, u, next, nil
}

// registered moves the session of a registration to the User who is linked to the identity by now.
func (s *rotation) registered(ctx context.Context, o *v1alpha1.Session, r *cached, now time.Time) (*Session, *iam.User, string, error) {
	var u *iam.User
	var err error
	if s.Linked != nil {
		u, err = s.Linked(r.Registration.Provider, r.Registration.Subject)
	}
	if u == nil {
		return nil, nil, "", cmp.Or(err, s.Users.Complete(), fmt.Errorf("%w: no User is linked yet, or one with a second factor", iam.ErrRefresh))
	}
	if why := u.RefusalReason(); why != "" {
		return nil, nil, "", fmt.Errorf("%w: %s", iam.ErrRefresh, why)
	}
	o = o.DeepCopy()
	o.Spec.User, o.Spec.UserUID, o.Spec.Credential, o.Spec.Registration = u.Name, types.UID(u.UID), u.Credential(), nil
	return s.rotate(ctx, o, r, u, now)
}

// errReused is an ErrRefresh that the metric counts apart.
var errReused = errors.New("it was used before; the session is ended")

// reused ends the session of a refresh token that was presented again: one of the two clients that have it may be an
// attacker, and the server can't know which.
func (s *rotation) reused(ctx context.Context, r *cached) error {
	if err := s.End(ctx, r.Name, "refresh token reused"); err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", iam.ErrRefresh, errReused)
}

func refreshResult(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, errReused):
		return "reused"
	case errors.Is(err, iam.ErrRefresh):
		return "refused"
	}
	return "failed"
}
