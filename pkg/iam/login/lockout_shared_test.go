package login_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/iam/lockout"
	"kapis.dev/ks-apiserver/pkg/iam/login"
)

const console = "10.244.0.9"

// through returns the origin of a login through a console that reports the user's address as claimed.
func through(claimed string) iam.Origin {
	return iam.Origin{Source: console, Shared: true, Claimed: claimed}
}

func (d *doors) tryFrom(t testing.TB, i int, name, password string, o iam.Origin) error {
	t.Helper()
	_, err := d.all[i].Password(t.Context(), login.Attempt{Login: name, Password: password, Origin: o})
	return err
}

// throttled fails the test unless an attempt has to wait, for seconds.
func throttled(t testing.TB, err error) {
	t.Helper()
	var wait *iam.ThrottledError
	if !errors.Is(err, iam.ErrLimited) || !errors.As(err, &wait) || wait.After <= 0 || wait.After > delayLast {
		t.Fatalf("%v", err)
	}
}

// S71: however many wrong passwords a stranger sends through the console, its user can log in there: from their usual network at once, and
// from elsewhere within seconds after the last wrong password.
func TestNobodyIsLockedOutBehindASharedAddress(t *testing.T) {
	d := newDoors(t, 2)
	iamtest.Want(t, d.tryFrom(t, 0, "alice", iamtest.Password, through(home)), nil)
	d.settle(t)
	for i := range 100 {
		err := d.tryFrom(t, i%2, "alice", "Wrong-123", through(fmt.Sprintf("203.0.113.%d", i)))
		if i < tries {
			iamtest.Want(t, err, iam.ErrCredentials)
		} else {
			throttled(t, err) // from whatever address they claim
		}
	}
	iamtest.Want(t, d.tryFrom(t, 1, "alice", iamtest.Password, through(home)), nil)
	throttled(t, d.tryFrom(t, 0, "alice", iamtest.Password, through("192.0.2.77")))
	throttled(t, d.tryFrom(t, 0, "alice", iamtest.Password, iam.Origin{Source: console, Shared: true}))
	d.clock.Step(delayLast)
	iamtest.Want(t, d.tryFrom(t, 0, "alice", iamtest.Password, through("192.0.2.77")), nil)
	iamtest.Want(t, d.tryFrom(t, 0, "bob", iamtest.Password, through(enemy)), nil) // others do not wait
	d.settle(t)

	// An attacker who claims the user's usual address delays the user, but locks them out no more than before.
	for range 50 {
		_ = d.tryFrom(t, 0, "alice", "Wrong-123", through(home))
	}
	throttled(t, d.tryFrom(t, 0, "alice", iamtest.Password, through(home)))
	d.clock.Step(delayLast)
	iamtest.Want(t, d.tryFrom(t, 0, "alice", iamtest.Password, through(home)), nil)
}

// S47: of ten thousand attempts at once, two replicas compare as many as there are tries, and one more after each delay; a restart, a
// login of the user and attempts on other names do not reset that.
func TestGuessesFromASharedAddressAreBounded(t *testing.T) {
	d := newDoors(t, 2)
	var wg sync.WaitGroup
	for i := range 10_000 {
		wg.Go(func() {
			err := d.tryFrom(t, i%2, "alice", "Wrong-123", through(fmt.Sprintf("198.51.%d.%d", i>>8&255, i&255)))
			if !errors.Is(err, iam.ErrCredentials) && !errors.Is(err, iam.ErrLimited) && !errors.Is(err, iam.ErrBusy) {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
	if n := d.compared.Load(); n > tries {
		t.Errorf("%d passwords were compared, %d is the limit", n, tries)
	}
	d.compared.Store(0)
	d.open(t, iamtest.Hash(t, iamtest.Password))
	guesses := func(why string, most int64) {
		t.Helper()
		d.compared.Store(0)
		for i := range 100 {
			_ = d.tryFrom(t, i%len(d.all), "alice", "Wrong-123", through(enemy))
		}
		if n := d.compared.Load(); n != most {
			t.Errorf("%s: %d comparisons, want %d", why, n, most)
		}
	}
	guesses("after a restart", 0)
	d.clock.Step(delayFirst)
	guesses("after the first delay", 1)
	d.clock.Step(delayFirst)
	guesses("after the first delay again", 0)
	for range 10 {
		d.clock.Step(delayLast)
		guesses("after a delay", 1)
	}
	d.clock.Step(delayLast)
	iamtest.Want(t, d.tryFrom(t, 0, "alice", iamtest.Password, through("192.0.2.77")), nil)
	d.settle(t)
	guesses("after a login", 0)
	for i := range 1000 {
		_ = d.tryFrom(t, 0, fmt.Sprintf("nobody-%d", i), "Wrong-123", through(fmt.Sprintf("198.51.%d.%d", i>>8&255, i&255)))
	}
	guesses("after many names", 0)
	d.clock.Step(31 * time.Minute)
	guesses("after a window without any", tries)
}

// S50: a name without a user is delayed like the name of a user.
func TestMadeUpNamesAreDelayedAlike(t *testing.T) {
	d := newDoors(t, 1)
	for _, name := range []string{"alice", "nobody", "nobody@example.com"} {
		for i := range 2 * tries {
			if err := d.tryFrom(t, 0, name, "Wrong-123", through(enemy)); i < tries {
				iamtest.Want(t, err, iam.ErrCredentials)
			} else {
				throttled(t, err)
			}
		}
	}
	d.clock.Step(delayFirst)
	for _, name := range []string{"alice", "nobody", "nobody@example.com"} {
		iamtest.Want(t, d.tryFrom(t, 0, name, "Wrong-123", through(enemy)), iam.ErrCredentials)
		throttled(t, d.tryFrom(t, 0, name, "Wrong-123", through(enemy)))
	}
}

// A right password from a shared address costs no write, unless a wrong one came before it.
func TestALoginFromASharedAddressWritesNothing(t *testing.T) {
	d := newDoors(t, 1)
	shared := iam.Origin{Source: console, Shared: true}
	for range 10 {
		iamtest.Want(t, d.tryFrom(t, 0, "alice", iamtest.Password, shared), nil)
		iamtest.Want(t, d.tryFrom(t, 0, "bob", iamtest.Password, shared), nil)
	}
	d.settle(t)
	if n := d.api.Count("create", "update", "get"); n != 0 {
		t.Errorf("got %d calls, want none", n)
	}
	iamtest.Want(t, d.tryFrom(t, 0, "alice", "Wrong-123", shared), iam.ErrCredentials)
	if n := d.api.Count("create", "update"); n != 1 {
		t.Errorf("got %d writes for a wrong password, want 1", n)
	}
}

// Without the API each replica delays by itself.
func TestWithoutTheAPIASharedAddressIsDelayed(t *testing.T) {
	d := newDoors(t, 1)
	d.api.BreakWith(errors.New("the API is gone"))
	for range 10 * tries {
		_ = d.tryFrom(t, 0, "alice", "Wrong-123", through(enemy))
	}
	if n := d.compared.Load(); n != tries {
		t.Errorf("%d comparisons", n)
	}
	d.clock.Step(delayLast)
	iamtest.Want(t, d.tryFrom(t, 0, "alice", iamtest.Password, through(home)), nil)
}

// S71: an address that two users log in from is a shared one, at the pages too; that of one user is not.
func TestAnAddressThatTwoUsersLogInFromIsShared(t *testing.T) {
	d := newDoors(t, 1)
	iamtest.Want(t, d.try(t, 0, "bob", iamtest.Password, console), nil)
	for range 2 * tries {
		_ = d.try(t, 0, "alice", "Wrong-123", console)
	}
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, console), iam.ErrLimited)
	d.clock.Step(delayLast)
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, console), iam.ErrLimited) // not a shared address yet
	d.clock.Step(31 * time.Minute)
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, console), nil)
	for range 2 * tries {
		_ = d.try(t, 0, "bob", "Wrong-123", console)
	}
	throttled(t, d.try(t, 0, "bob", iamtest.Password, console))
	d.clock.Step(delayLast)
	iamtest.Want(t, d.try(t, 0, "bob", iamtest.Password, console), nil)
}

// Second factors are counted as at other addresses, since they follow a right password. The network of the completed
// login is known for the user.
func TestCodesOfASharedAddressAreCountedAsEver(t *testing.T) {
	d := newDoors(t, 1)
	l, u := d.all[0].Lockout, d.all[0].Passwords.Users.ByName("alice")
	for range tries {
		a, err := l.Begin(t.Context(), lockout.Code, u, "alice", through(enemy))
		iamtest.Want(t, err, nil)
		a.Fail(t.Context())
	}
	_, err := l.Begin(t.Context(), lockout.Code, u, "alice", through(enemy))
	iamtest.Want(t, err, iam.ErrLimited)
	d.clock.Step(31 * time.Minute)
	a, err := l.Begin(t.Context(), lockout.Code, u, "alice", through(home))
	iamtest.Want(t, err, nil)
	iamtest.Want(t, a.Succeed(true), nil)
	d.settle(t)
	for range 2 * tries {
		_ = d.tryFrom(t, 0, "alice", "Wrong-123", through(enemy))
	}
	iamtest.Want(t, d.tryFrom(t, 0, "alice", iamtest.Password, through(home)), nil)
}
