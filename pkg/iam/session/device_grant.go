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
	"kapis.dev/ks-apiserver/pkg/token"
)

// maxWaiting is how many devices of one user may wait for their sessions, including denied ones.
const maxWaiting = 8

// Approve opens a session for the device that knows its name, to be claimed within ten minutes. Its errors are ErrUsed if the name is
// taken, and ErrBusy if too many devices of the user wait.
func (s *opener) Approve(ctx context.Context, l Login) error {
	return s.answer(ctx, l, v1alpha1.PhaseWaiting)
}

// Deny refuses the device that waits for a session of that name, on behalf of a user.
func (s *opener) Deny(ctx context.Context, name string, by *iam.User) error {
	return s.answer(ctx, Login{AuthnResult: iam.AuthnResult{User: by}, Name: name}, v1alpha1.PhaseDenied)
}

// answer stores a user's answer to a device.
func (s *opener) answer(ctx context.Context, l Login, phase v1alpha1.Phase) error {
	if l.User == nil || l.Name == "" {
		return errors.New("answer a device: a user and the name of a session are needed")
	}
	if s.isGone(l.Name) {
		return iam.ErrUsed
	}
	if s.waiting(l.User.UID) >= maxWaiting {
		return iam.ErrBusy
	}
	o, err := s.holderOf(&l)
	if err != nil {
		return fmt.Errorf("answer a device: %w", err)
	}
	object, _, err := s.prepare(ctx, &l, o)
	if err != nil {
		return err
	}
	object.Phase, object.Refresh, object.Spec.FromCode = phase, v1alpha1.Refresh{}, true
	_, err = s.create(ctx, object)
	return err
}

// Claim gives an approved session to its client, once, with those of the approved scopes that the device asks for; all if it names none.
// Its errors are ErrWaiting, ErrDenied, ErrUsed, ErrOver and ErrUnavailable. For an unanswered name it makes no call, since polls are
// anonymous.
func (s *opener) Claim(ctx context.Context, name, client string, scopes ...string) (*Session, *iam.User, string, error) {
	s.mu.RLock()
	r, gone := s.byName[name], s.gone.Has(name)
	s.mu.RUnlock()
	switch {
	case gone:
		return nil, nil, "", iam.ErrOver
	case r == nil:
		return nil, nil, "", iam.ErrWaiting
	}
	return s.claimKnown(ctx, r, client, scopes)
}

// ClaimOpened is Claim for a name that was given away only after Approve: a session that is not known here is read. Its errors are those
// of Claim, without ErrWaiting.
func (s *opener) ClaimOpened(ctx context.Context, name, client string) (*Session, *iam.User, string, error) {
	r, err := s.find(ctx, name)
	if err != nil {
		return nil, nil, "", err
	}
	return s.claimKnown(ctx, r, client, nil)
}

func (s *opener) claimKnown(ctx context.Context, r *cached, client string, scopes []string) (*Session, *iam.User, string, error) {
	switch {
	case r.phase == v1alpha1.PhaseDenied:
		return nil, nil, "", iam.ErrDenied
	case r.Client != client || !s.Now().Before(r.Created.Add(CodeLife)):
		return nil, nil, "", iam.ErrOver
	case r.phase == "" && !r.fromCode:
		return nil, nil, "", iam.ErrOver
	case r.phase == "":
		return nil, nil, "", s.codeReused(ctx, r.Name)
	}
	return s.claim(ctx, r, scopes)
}

// claim makes a waiting session a live one: of several attempts, only the one whose update succeeds gets it.
func (s *opener) claim(ctx context.Context, r *cached, scopes []string) (*Session, *iam.User, string, error) {
	o, err := s.API.Get(ctx, r.Name)
	switch {
	case apierrors.IsNotFound(err):
		s.Delete("", r.Name)
		return nil, nil, "", iam.ErrOver
	case err != nil:
		return nil, nil, "", fmt.Errorf("%w: read session: %w", iam.ErrUnavailable, err)
	case o.Phase == v1alpha1.PhaseEnded:
		return nil, nil, "", iam.ErrOver
	case o.Phase != v1alpha1.PhaseWaiting || o.Spec.Client != r.Client:
		return nil, nil, "", s.codeReused(ctx, r.Name)
	}
	now := s.Now()
	refresh, err := s.Keys.KeySet().NewRefresh(r.Name, 1, now)
	if err != nil {
		return nil, nil, "", fmt.Errorf("hand a session to a device: %w", err)
	}
	o.Phase, o.LastUsedAt = "", metav1.NewTime(now)
	if len(scopes) > 0 {
		o.Spec.Scopes = slices.DeleteFunc(slices.Clone(o.Spec.Scopes), func(s string) bool { return !slices.Contains(scopes, s) })
	}
	o.Refresh = v1alpha1.Refresh{Current: token.HashRefresh(refresh), RotatedAt: metav1.NewTime(now), Generation: 1}
	next := newCached(o)
	u, err := s.validate(ctx, next) // before the write, so that a temporary refusal loses nothing
	if err != nil {
		return nil, nil, "", err
	}
	o, err = s.API.Update(ctx, o)
	switch {
	case apierrors.IsConflict(err):
		return nil, nil, "", s.codeReused(ctx, r.Name)
	case apierrors.IsNotFound(err):
		s.Delete("", r.Name)
		return nil, nil, "", iam.ErrOver
	case err != nil:
		return nil, nil, "", fmt.Errorf("%w: hand a session to a device: %w", iam.ErrUnavailable, err)
	}
	next = newCached(o)
	next.until = now.Add(unconfirmed)
	s.mu.Lock()
	defer s.mu.Unlock()
	if next = s.put(next); next == nil {
		return nil, nil, "", iam.ErrOver
	}
	s.limit(next)
	return &next.Session, u, refresh, nil
}
