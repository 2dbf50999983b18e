package session

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
)

// RegistrationLock keeps two registrations of one identity apart, in the objects of sessions.
type RegistrationLock struct {
	API Backend
	Now func() time.Time
}

// Reserve reserves a registration for one request, even if other requests choose other names at the same time: two Users linked to
// one identity would lock its owner out. held is the name that another request reserved it for; "" if the reservation is the
// caller's. It ends after CodeLife.
func (s *RegistrationLock) Reserve(ctx context.Context, r *iam.Registration, name string) (held string, err error) {
	o := s.reservation(r, name)
	_, err = s.API.Create(ctx, o)
	if err == nil {
		return "", nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("%w: reserve a registration: %w", iam.ErrUnavailable, err)
	}
	there, err := s.API.Get(ctx, o.Name)
	if err != nil {
		return "", fmt.Errorf("%w: read the reservation of a registration: %w", iam.ErrUnavailable, err)
	}
	if there.Spec.User == name {
		return "", nil // it is this person's own: the page was sent twice
	}
	return there.Spec.User, nil
}

// Release gives up a reservation when no User was created.
func (s *RegistrationLock) Release(ctx context.Context, r *iam.Registration, name string) error {
	if err := s.API.Delete(ctx, s.reservation(r, name).Name, ""); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: release the reservation of a registration: %w", iam.ErrUnavailable, err)
	}
	return nil
}

func (s *RegistrationLock) reservation(r *iam.Registration, name string) *v1alpha1.Session {
	now, uid := metav1.NewTime(s.Now()), r.User().UID
	return &v1alpha1.Session{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Session"},
		ObjectMeta: metav1.ObjectMeta{Name: "registration." + strings.TrimPrefix(uid, iam.RegistrationPrefix)},
		Spec: v1alpha1.SessionSpec{
			User: name, UserUID: types.UID(uid), FromCode: true, AuthenticatedAt: now, CreatedAt: now, ExpiresAt: metav1.NewTime(now.Add(CodeLife)),
		},
		Phase: v1alpha1.PhaseEnded,
	}
}
