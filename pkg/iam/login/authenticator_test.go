package login_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/idp"
)

// S50: a client without the right password gets one and the same error, at the price of one comparison each.
func TestTheEntranceTellsNothingToWhoHasNotTheRightPassword(t *testing.T) {
	d := newDoors(t, 1)
	users, h := d.all[0].Passwords.Users, iamtest.Hash(t, iamtest.Password)
	users.Set(iamtest.User("disabled", iamtest.WithPassword(h), iamtest.WithState(iamapi.UserDisabled)))
	users.Set(iamtest.User("ldap"))
	for name, test := range map[string]struct {
		login, password string
		want            error
	}{
		"right":           {"bob", iamtest.Password, nil},
		"wrong":           {"bob", "Wrong-123", iam.ErrCredentials},
		"unknown":         {"nobody", iamtest.Password, iam.ErrCredentials},
		"of a provider":   {"ldap", iamtest.Password, iam.ErrCredentials},
		"disabled, wrong": {"disabled", "Wrong-123", iam.ErrCredentials},
		"disabled, right": {"disabled", iamtest.Password, iam.ErrSuspended},
		"empty":           {"bob", "", iam.ErrCredentials},
	} {
		t.Run(name, func(t *testing.T) {
			d.compared.Store(0)
			iamtest.Want(t, d.try(t, 0, test.login, test.password, enemy), test.want)
			if n := d.compared.Load(); n != 1 {
				t.Errorf("%d comparisons", n)
			}
		})
	}
}

// S50: a refusal takes a time that is rounded up, so that a write for a user who exists does not show.
func TestARefusalTakesARoundedTime(t *testing.T) {
	d := newDoors(t, 1)
	e := d.all[0]
	var paused []time.Duration
	e.Pause = func(_ context.Context, p time.Duration) { paused = append(paused, p) }
	inner := e.Passwords.Compare
	e.Passwords.Compare = func(h, p []byte) error { d.clock.Step(70 * time.Millisecond); return inner(h, p) }
	iamtest.Want(t, d.try(t, 0, "alice", "Wrong-123", enemy), iam.ErrCredentials)
	iamtest.Want(t, d.try(t, 0, "nobody", "Wrong-123", enemy), iam.ErrCredentials)
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, home), nil)
	if !slices.Equal(paused, []time.Duration{230 * time.Millisecond, 230 * time.Millisecond}) {
		t.Errorf("paused %v", paused)
	}
}

// A user without a password, or whose password is not hashed yet, has nothing to guess: nothing is written, and a
// password set later works at once.
func TestAttemptsOnWhoHasNoPasswordAreCountedInMemory(t *testing.T) { // S58
	d := newDoors(t, 1)
	users := d.all[0].Passwords.Users
	users.Set(iamtest.User("carol", iamtest.WithPassword("not hashed yet")))
	users.Set(iamtest.User("ldap"))
	for _, name := range []string{"carol", "ldap"} {
		for i := range 2 * tries {
			err := d.try(t, 0, name, iamtest.Password, home)
			if i < tries {
				iamtest.Want(t, err, iam.ErrCredentials)
			} else {
				iamtest.Want(t, err, iam.ErrLimited)
			}
		}
	}
	if n := d.api.Count("create", "update", "get"); n != 0 {
		t.Errorf("%d calls", n)
	}
	users.Set(iamtest.User("carol", iamtest.WithPassword(iamtest.Hash(t, iamtest.Password))))
	iamtest.Want(t, d.try(t, 0, "carol", iamtest.Password, home), nil)
}

func TestUnknownProvidersAreToldApart(t *testing.T) {
	d := newDoors(t, 1)
	_, err := d.all[0].Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Provider: "ldap"})
	iamtest.Want(t, err, iam.ErrUnknownProvider)
	if d.compared.Load() != 0 {
		t.Error("the local password was looked at")
	}
	_, err = d.all[0].Identity(t.Context(), "ldap", nil, iam.Origin{})
	iamtest.Want(t, err, iam.ErrUnknownProvider)
}

// Confirming the current password counts as a login does: a stolen token is no way to guess the password.
func TestConfirmingThePasswordCounts(t *testing.T) {
	d := newDoors(t, 1)
	e, alice := d.all[0], d.all[0].Passwords.Users.ByName("alice")
	iamtest.Want(t, e.Confirm(t.Context(), alice, iamtest.Password, iam.Origin{Source: home}), nil)
	for range tries {
		iamtest.Want(t, e.Confirm(t.Context(), alice, "Wrong-123", iam.Origin{Source: enemy}), iam.ErrCredentials)
	}
	iamtest.Want(t, e.Confirm(t.Context(), alice, iamtest.Password, iam.Origin{Source: enemy}), iam.ErrLimited)
	if n := d.compared.Load(); n != tries+1 {
		t.Errorf("%d comparisons", n)
	}
}

// A client that leaves while it waits does not count as a failure, and delays no other client.
func TestAClientThatLeavesHoldsUpNobody(t *testing.T) {
	d := newDoors(t, 1)
	e := d.all[0]
	ctx, cancel := context.WithCancel(t.Context())
	inside, hold := make(chan struct{}), make(chan struct{})
	inner := e.Passwords.Compare
	e.Passwords.Compare = func(hash, password []byte) error {
		if string(password) == "hold" {
			inside <- struct{}{}
			<-hold
		}
		return inner(hash, password)
	}
	for range max(1, runtime.GOMAXPROCS(0)-1) { // all workers
		go func() { _, _ = e.Passwords.Check(t.Context(), "nobody", "hold") }()
		<-inside
	}
	done := make(chan error)
	for range 2 {
		go func() {
			_, err := e.Password(ctx, login.Attempt{Login: "alice", Password: iamtest.Password, Origin: iam.Origin{Source: home}})
			done <- err
		}()
	}
	cancel()
	for range 2 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	close(hold)
	d.settle(t)
	for i := range 2 * tries { // none of the tries is used up
		iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, fmt.Sprintf("192.0.2.%d", i)), nil)
	}
}

// While users are not known in full, the name or the password may be right that is not known here: nobody is told that they are wrong, nor by the answer
// which names exist (S50). A guess counts all the same, and who is known logs in.
func TestAPasswordIsWrongOnlyWhereAllUsersAreKnown(t *testing.T) {
	d := newDoors(t, 1)
	unknown := errors.New("list users: not complete yet")
	d.all[0].Passwords.Users.CompleteBy(func() error { return unknown })
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, home), nil)
	iamtest.Want(t, d.try(t, 0, "nobody", iamtest.Password, home), iam.ErrUnavailable)
	for range tries {
		err := d.try(t, 0, "alice", "Wrong-123", enemy)
		iamtest.Want(t, err, iam.ErrUnavailable)
		if errors.Is(err, iam.ErrCredentials) {
			t.Errorf("it tells: %v", err)
		}
	}
	iamtest.Want(t, d.try(t, 0, "alice", "Wrong-123", enemy), iam.ErrLimited)
	unknown = nil
	iamtest.Want(t, d.try(t, 0, "nobody", iamtest.Password, home), iam.ErrCredentials)
}

// A provider that is not known yet is one that can't be asked now.
func TestAProviderThatIsNotKnownYetIsNotUnknown(t *testing.T) {
	d := newDoors(t, 1)
	e := d.all[0]
	e.Directory = idp.NewDirectory(idp.DirectoryOptions{Secrets: fake.NewClientset().CoreV1().Secrets("kubesphere-system")})
	_, err := e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Provider: "ldap"})
	iamtest.Want(t, err, idp.ErrUnavailable)
	_, err = e.Identity(t.Context(), "github", &idp.Identity{Subject: "1"}, iam.Origin{})
	iamtest.Want(t, err, idp.ErrUnavailable)
}

// The second step of a login does not fail because its user is not known at this replica yet.
func TestTheSecondFactorOfAUserWhoIsNotKnownYetCanNotBeTold(t *testing.T) {
	d := newDoors(t, 1)
	e := d.all[0]
	alice := e.Passwords.Users.ByName("alice")
	e.Factors = &factor.Store{}
	unknown := errors.New("list users: not complete yet")
	e.Passwords.Users.CompleteBy(func() error { return unknown })
	e.Passwords.Users.Delete("", "alice")
	for _, want := range []error{iam.ErrUnavailable, iam.ErrCredentials} {
		iamtest.Want(t, e.SecondFactor(t.Context(), &iam.AuthnResult{User: alice, Pending: true}, "123456", iam.Origin{Source: home}), want)
		unknown = nil
	}
}
