package session

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/account"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
)

// meanwhile is a UserAPI that runs a function just before the first User is created.
type meanwhile struct {
	account.UserAPI
	happen func()
}

func (m *meanwhile) Create(ctx context.Context, u *iamapi.User) ([]byte, error) {
	if do := m.happen; do != nil {
		m.happen = nil
		do()
	}
	return m.UserAPI.Create(ctx, u)
}

func (r *replica) registrationLock() *RegistrationLock {
	return &RegistrationLock{API: r.API, Now: r.clock.Now}
}

// linker links identities to the users of an API.
func linker(api *iamtest.UserAPI) *account.Linker {
	users := iam.NewUserIndex()
	api.Feeds = append(api.Feeds, users)
	return account.New(account.Options{API: api, Users: users, Synced: func() bool { return true }})
}

// One person chooses two names on two pages at once: one User is created, and the person can log in.
func TestOneIdentityIsRegisteredOnceWhateverNamesAreChosen(t *testing.T) {
	_, replicas := newReplicas(t, 2, nil)
	users := iamtest.NewUserAPI()
	a, b := linker(users), linker(users)
	a.Reservations, b.Reservations = replicas[0].registrationLock(), replicas[1].registrationLock()
	r := iam.Registration{Provider: "corp", Subject: "1"}
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
	if len(users.Objects) != 1 || b.Linked("corp", "1") == nil {
		t.Errorf("%d users", len(users.Objects))
	}
}

func TestAReservationIsGivenUpWhereTheNameIsTaken(t *testing.T) {
	_, replicas := newReplicas(t, 1, nil)
	users := iamtest.NewUserAPI()
	a := linker(users)
	a.Reservations = replicas[0].registrationLock()
	a.API = &meanwhile{users, func() {
		if _, err := a.Register(t.Context(), iam.Registration{Provider: "corp", Subject: "other"}, "carol", ""); err != nil {
			t.Error(err)
		}
	}}
	r := iam.Registration{Provider: "corp", Subject: "1"}
	if _, err := a.Register(t.Context(), r, "carol", ""); err == nil {
		t.Fatal("two people got one name")
	}
	if u, err := a.Register(t.Context(), r, "carol2", ""); err != nil || u.Name != "carol2" {
		t.Errorf("another name: %v, %v", u, err)
	}
}

func TestAReservationIsSweptLikeAnEndedSession(t *testing.T) {
	api, replicas := newReplicas(t, 1, nil)
	s := replicas[0].Store
	r, lock := &iam.Registration{Provider: "corp", Subject: "1"}, replicas[0].registrationLock()
	for _, test := range []struct{ name, held string }{{"ann", ""}, {"bob", "ann"}, {"ann", ""}} {
		if held, err := lock.Reserve(t.Context(), r, test.name); err != nil || held != test.held {
			t.Fatalf("%s: held as %q, %v", test.name, held, err)
		}
	}
	replicas[0].clock.Step(CodeLife + s.Skew + 1)
	s.Sweep(t.Context())
	if len(api.objects) != 0 {
		t.Errorf("%d objects are left", len(api.objects))
	}
	api.failWith = errors.New("no connection")
	if _, err := lock.Reserve(t.Context(), r, "ann"); !errors.Is(err, iam.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}
