package lockout

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/recent"
)

// limits is a limiter that knows alice and bob, with the API that it writes to.
type limits struct {
	*Limiter
	api   *iamtest.Objects[*v1alpha1.Lockout]
	clock *clocktesting.FakeClock
}

const (
	limitTries   = 5
	ownNetwork   = "192.0.2.10"
	otherNetwork = "203.0.113.66"
)

func newLimits(t testing.TB) *limits {
	t.Helper()
	x := &limits{api: iamtest.NewObjects(func() *v1alpha1.Lockout { return &v1alpha1.Lockout{} }), clock: clocktesting.NewFakeClock(iamtest.Start())}
	users := iam.NewUserIndex()
	users.Set(iamtest.User("alice"))
	users.Set(iamtest.User("bob"))
	var err error
	x.Limiter, err = New(Options{API: x.api, Users: users, Tries: limitTries, Window: 30 * time.Minute, Now: x.clock.Now})
	iamtest.Want(t, err, nil)
	x.api.Follow(x.Limiter)
	return x
}

// try is an attempt with a password that is right or not.
func (x *limits) try(t testing.TB, name string, right bool, source string) error {
	t.Helper()
	a, err := x.Begin(t.Context(), Password, x.Users.ByName(name), name, iam.Origin{Source: source})
	switch {
	case err != nil:
		return err
	case right:
		return a.Succeed(true)
	}
	a.Fail(t.Context())
	return iam.ErrCredentials
}

// S47, S58: made-up names reset no user's count, and write nothing.
func TestMadeUpNamesResetNothingAndWriteNothing(t *testing.T) {
	x := newLimits(t)
	for range limitTries {
		iamtest.Want(t, x.try(t, "alice", false, otherNetwork), iam.ErrCredentials)
	}
	writes := x.api.Count("create", "update")
	for i := range uint64(1_000_000) {
		x.strangers.Add(recent.KeyOf("password", "name nobody")+i, 1, x.clock.Now(), x.Window) // one count, as each name leaves it
	}
	for i := range 5_000 { // from as many networks, or the network's own limit would apply
		err := x.try(t, fmt.Sprintf("nobody-%d", i), false, fmt.Sprintf("198.51.%d.%d", i>>8&255, i&255))
		if !errors.Is(err, iam.ErrCredentials) && !errors.Is(err, iam.ErrLimited) {
			t.Fatal(err)
		}
	}
	iamtest.Want(t, x.try(t, "alice", true, otherNetwork), iam.ErrLimited) // the password is not even compared
	if n := x.api.Count("create", "update", "get", "delete") - writes; n != 0 {
		t.Errorf("%d calls because of names that nobody has", n)
	}
	if n := x.strangers.Len(); n > strangersSize {
		t.Errorf("%d names are remembered", n)
	}
	if n := len(x.gates); n != 0 {
		t.Errorf("%d queues are left", n)
	}
}

func TestAnAttemptThatLeavesWhileItWaitsLeavesNoQueue(t *testing.T) {
	x := newLimits(t)
	first, err := x.Begin(t.Context(), Password, x.Users.ByName("alice"), "alice", iam.Origin{Source: otherNetwork})
	iamtest.Want(t, err, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = x.Begin(ctx, Password, x.Users.ByName("alice"), "alice", iam.Origin{Source: otherNetwork})
	iamtest.Want(t, err, context.Canceled)
	first.Cancel()
	if n := len(x.gates); n != 0 {
		t.Errorf("%d queues are left", n)
	}
}

func TestSweepDeletesWhatCountsNothing(t *testing.T) {
	x := newLimits(t)
	iamtest.Want(t, x.try(t, "alice", false, otherNetwork), iam.ErrCredentials)
	iamtest.Want(t, x.try(t, "bob", true, ownNetwork), nil)
	x.Flush(t.Context())
	x.Sweep(t.Context())
	if x.api.Size() != 2 {
		t.Fatalf("%d Lockouts", x.api.Size())
	}
	x.clock.Step(time.Hour)
	x.Sweep(t.Context())
	if x.api.Size() != 1 || x.byUser["uid-bob"] == nil {
		t.Fatalf("%d Lockouts are left", x.api.Size())
	}
	x.Users.Delete("", "bob")
	x.Users.CompleteBy(func() error { return errors.New("the watch is broken") })
	if x.Sweep(t.Context()); x.api.Size() != 1 {
		t.Error("a Lockout went while not all users are known")
	}
	x.Users.CompleteBy(nil)
	x.Sweep(t.Context())
	if x.api.Size() != 0 || len(x.byUser) != 0 {
		t.Errorf("the Lockout of a user who is gone is left")
	}
}

func TestLedgersStayWithinTheirBounds(t *testing.T) {
	l, now := &state{user: "alice"}, iamtest.Start()
	for i := range uint64(1000) {
		l = l.fail(Password, i, 1, true, now, time.Hour)
		l = l.clear(Code, 1<<60+i, true, &i, now.Add(time.Duration(i)), time.Hour)
	}
	if len(l.failures) != mostFailures || len(l.known) != mostKnown {
		t.Errorf("%d failures, %d known", len(l.failures), len(l.known))
	}
	if _, ok := l.knows(999, now); !ok {
		t.Error("the latest place is not known")
	}
	back := newState(l.object("uid"))
	if len(back.failures) != mostFailures || back.known[3].hash != l.known[3].hash || back.failures[7].key != l.failures[7].key || back.guesses.count != 1000 {
		t.Errorf("%+v", back)
	}
	l = l.pruned(now.Add(knownFor+time.Hour), time.Hour)
	if !l.empty() {
		t.Errorf("%+v is left", l)
	}
}
