package iam

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// S50: whoever has not the right password sees one error, at the price of one comparison each.
func TestTheEntranceTellsNothingToWhoHasNotTheRightPassword(t *testing.T) {
	d := newDoors(t, 1)
	users, h := d.all[0].Passwords.users, hash(t, secret)
	users.Set(userObject("disabled", withPassword(h), withState(iamapi.UserDisabled)))
	users.Set(userObject("ldap"))
	for name, test := range map[string]struct {
		login, password string
		want            error
	}{
		"right":           {"bob", secret, nil},
		"wrong":           {"bob", "Wrong-123", ErrCredentials},
		"unknown":         {"nobody", secret, ErrCredentials},
		"of a provider":   {"ldap", secret, ErrCredentials},
		"disabled, wrong": {"disabled", "Wrong-123", ErrCredentials},
		"disabled, right": {"disabled", secret, ErrSuspended},
		"empty":           {"bob", "", ErrCredentials},
	} {
		t.Run(name, func(t *testing.T) {
			d.compared.Store(0)
			want(t, d.try(t, 0, test.login, test.password, enemy), test.want)
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
	inner := e.Passwords.compare
	e.Passwords.compare = func(h, p []byte) error { d.clock.add(70 * time.Millisecond); return inner(h, p) }
	want(t, d.try(t, 0, "alice", "Wrong-123", enemy), ErrCredentials)
	want(t, d.try(t, 0, "nobody", "Wrong-123", enemy), ErrCredentials)
	want(t, d.try(t, 0, "alice", secret, home), nil)
	if !slices.Equal(paused, []time.Duration{230 * time.Millisecond, 230 * time.Millisecond}) {
		t.Errorf("paused %v", paused)
	}
}

// Who has no password, or one that is not hashed yet, has none that could be guessed: nothing is written, and once he has one he may use it.
func TestAttemptsOnWhoHasNoPasswordAreCountedInMemory(t *testing.T) { // S58
	d := newDoors(t, 1)
	users := d.all[0].Passwords.users
	users.Set(userObject("carol", withPassword("not hashed yet")))
	users.Set(userObject("ldap"))
	for _, name := range []string{"carol", "ldap"} {
		for i := range 2 * tries {
			err := d.try(t, 0, name, secret, home)
			if i < tries {
				want(t, err, ErrCredentials)
			} else {
				want(t, err, ErrLimited)
			}
		}
	}
	if n := d.api.count("create", "update", "get"); n != 0 {
		t.Errorf("%d calls", n)
	}
	users.Set(userObject("carol", withPassword(hash(t, secret))))
	want(t, d.try(t, 0, "carol", secret, home), nil)
}

func TestUnknownProvidersAreToldApart(t *testing.T) {
	d := newDoors(t, 1)
	_, err := d.all[0].Password(t.Context(), Attempt{Login: "alice", Password: secret, Provider: "ldap"})
	want(t, err, ErrUnknownProvider)
	if d.compared.Load() != 0 {
		t.Error("the local password was looked at")
	}
	_, err = d.all[0].Identity(t.Context(), "ldap", nil, Origin{})
	want(t, err, ErrUnknownProvider)
}

// The current password counts as a login does: a stolen token is no way to guess it.
func TestConfirmingThePasswordCounts(t *testing.T) {
	d := newDoors(t, 1)
	e, alice := d.all[0], d.all[0].Passwords.users.ByName("alice")
	want(t, e.Confirm(t.Context(), alice, secret, Origin{Source: home}), nil)
	for range tries {
		want(t, e.Confirm(t.Context(), alice, "Wrong-123", Origin{Source: enemy}), ErrCredentials)
	}
	want(t, e.Confirm(t.Context(), alice, secret, Origin{Source: enemy}), ErrLimited)
	if n := d.compared.Load(); n != tries+1 {
		t.Errorf("%d comparisons", n)
	}
}

// A client that leaves while it waits is no failure, and holds up nobody.
func TestAClientThatLeavesHoldsUpNobody(t *testing.T) {
	d := newDoors(t, 1)
	e := d.all[0]
	ctx, cancel := context.WithCancel(t.Context())
	release, err := e.Passwords.acquire(t.Context())
	want(t, err, nil)
	for range cap(e.Passwords.workers) - 1 {
		r, err := e.Passwords.acquire(t.Context())
		want(t, err, nil)
		defer r()
	}
	done := make(chan error)
	for range 2 {
		go func() {
			_, err := e.Password(ctx, Attempt{Login: "alice", Password: secret, Origin: Origin{Source: home}})
			done <- err
		}()
	}
	cancel()
	for range 2 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	release()
	d.settle(t)
	if n := len(e.Lockout.gates); n != 0 {
		t.Errorf("%d gates are left", n)
	}
	for i := range 2 * tries { // none of the tries is used up
		want(t, d.try(t, 0, "alice", secret, fmt.Sprintf("192.0.2.%d", i)), nil)
	}
}
