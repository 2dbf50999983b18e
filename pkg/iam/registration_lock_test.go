package iam

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// meanwhile is a UserAPI at which something happens just before the first User is made.
type meanwhile struct {
	UserAPI
	happen func()
}

func (m *meanwhile) Create(ctx context.Context, u *iamapi.User) ([]byte, error) {
	if do := m.happen; do != nil {
		m.happen = nil
		do()
	}
	return m.UserAPI.Create(ctx, u)
}

// Two pages of one person choose two names at once: one User is made, and he can log in.
func TestOneIdentityIsRegisteredOnceWhateverNamesAreChosen(t *testing.T) {
	_, replicas := newReplicas(t, 2, nil)
	users := newUserAPI()
	a, b := accounts(users), accounts(users)
	a.Reservations, b.Reservations = replicas[0].Sessions, replicas[1].Sessions
	r := Registration{Provider: "corp", Subject: "1"}
	a.API = &meanwhile{users, func() {
		if _, err := b.Register(t.Context(), r, "second", ""); !apierrors.IsConflict(err) {
			t.Errorf("a second name: %v", err)
		}
	}}
	u, err := a.Register(t.Context(), r, "first", "")
	if err != nil || u.Name != "first" {
		t.Fatal(u, err)
	}
	if again, err := b.Register(t.Context(), r, "first", ""); err != nil || again.Name != "first" {
		t.Errorf("the same page again: %v, %v", again, err)
	}
	if len(users.objects) != 1 || b.Linked("corp", "1") == nil {
		t.Errorf("%d users", len(users.objects))
	}
}

func TestAReservationIsGivenUpWhereTheNameIsTaken(t *testing.T) {
	_, replicas := newReplicas(t, 1, nil)
	users := newUserAPI()
	a := accounts(users)
	a.Reservations = replicas[0].Sessions
	a.API = &meanwhile{users, func() {
		if _, err := a.Register(t.Context(), Registration{Provider: "corp", Subject: "other"}, "carol", ""); err != nil {
			t.Error(err)
		}
	}}
	r := Registration{Provider: "corp", Subject: "1"}
	if _, err := a.Register(t.Context(), r, "carol", ""); err == nil {
		t.Fatal("two people got one name")
	}
	if u, err := a.Register(t.Context(), r, "carol2", ""); err != nil || u.Name != "carol2" {
		t.Errorf("another name: %v, %v", u, err)
	}
}

func TestAReservationIsSweptLikeAnEndedSession(t *testing.T) {
	api, replicas := newReplicas(t, 1, nil)
	s := replicas[0].Sessions
	r := &Registration{Provider: "corp", Subject: "1"}
	for _, test := range []struct{ name, held string }{{"ann", ""}, {"bob", "ann"}, {"ann", ""}} {
		if held, err := s.Reserve(t.Context(), r, test.name); err != nil || held != test.held {
			t.Fatalf("%s: held as %q, %v", test.name, held, err)
		}
	}
	replicas[0].clock.add(CodeLife + s.Skew + 1)
	s.Sweep(t.Context())
	if len(api.objects) != 0 {
		t.Errorf("%d objects are left", len(api.objects))
	}
	api.failWith = errors.New("no connection")
	if _, err := s.Reserve(t.Context(), r, "ann"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v", err)
	}
}
