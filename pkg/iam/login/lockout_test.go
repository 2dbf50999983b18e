package login_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/iam/lockout"
	"kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/iam/password"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

const (
	home  = "192.0.2.10"
	enemy = "203.0.113.66"
)

// doors are the authenticators of several replicas that share one API.
type doors struct {
	api      *iamtest.Objects[*v1alpha1.Lockout]
	clock    *clocktesting.FakeClock
	all      []*login.Authenticator
	compared atomic.Int64
	visited  func(uid, source string) bool
}

const tries = 5

// The limits of the lockout in numbers: see the constants of package lockout.
const (
	budgetOfPasswords = 10
	budgetOfCodes     = 2
	sprayLimit        = 100
	sprayTime         = time.Minute
	delayFirst        = 4 * time.Second
	delayLast         = 16 * time.Second
	timeOfWrite       = 2 * time.Second
)

// newDoors makes replicas that know alice and bob.
func newDoors(t testing.TB, n int) *doors {
	t.Helper()
	d := &doors{api: iamtest.NewObjects(func() *v1alpha1.Lockout { return &v1alpha1.Lockout{} }), clock: clocktesting.NewFakeClock(iamtest.Start())}
	h := iamtest.Hash(t, iamtest.Password)
	for range n {
		d.open(t, h)
	}
	return d
}

func (d *doors) open(t testing.TB, h string) *login.Authenticator {
	t.Helper()
	users := iam.NewUserIndex()
	users.Set(iamtest.User("alice", iamtest.WithPassword(h)))
	users.Set(iamtest.User("bob", iamtest.WithPassword(h)))
	p, err := password.New(users, nil)
	iamtest.Want(t, err, nil)
	inner := p.Compare
	p.Dummy, p.Now, p.LimitedFor = []byte(h), d.clock.Now, 30*time.Minute
	p.Compare = func(hash, password []byte) error {
		d.compared.Add(1)
		return inner(hash, password)
	}
	l, err := lockout.New(lockout.Options{API: d.api, Users: users, Tries: tries, Window: 30 * time.Minute, Now: d.clock.Now,
		Visited: func(uid, source string) bool { return d.visited != nil && d.visited(uid, source) }})
	if err != nil {
		t.Fatal(err)
	}
	d.api.Mu.Lock()
	for _, raw := range d.api.Stored { // a list comes first
		l.Set(iamtest.ObjectOf(raw))
	}
	d.api.Feeds = append(d.api.Feeds, &iamtest.Feed{Sink: l})
	d.api.Mu.Unlock()
	e := &login.Authenticator{Passwords: p, Lockout: l, Now: d.clock.Now}
	d.all = append(d.all, e)
	return e
}

func (d *doors) try(t testing.TB, i int, name, password, source string) error {
	t.Helper()
	_, err := d.all[i].Password(t.Context(), login.Attempt{Login: name, Password: password, Origin: iam.Origin{Source: source}})
	return err
}

// settle does the writes that logins have queued.
func (d *doors) settle(t testing.TB) {
	for _, e := range d.all {
		e.Lockout.Flush(t.Context())
	}
}

// S47: of ten thousand wrong passwords at once, at two replicas, no more than the limit reach the comparison.
func TestNoMoreThanTheLimitReachTheComparison(t *testing.T) {
	d := newDoors(t, 2)
	var wg sync.WaitGroup
	for i := range 10_000 {
		wg.Go(func() {
			if err := d.try(t, i%2, "alice", "Wrong-123", enemy); !errors.Is(err, iam.ErrCredentials) && !errors.Is(err, iam.ErrLimited) && !errors.Is(err,
				iam.ErrBusy) {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
	if n := d.compared.Load(); n > tries {
		t.Errorf("%d passwords were compared, %d is the limit", n, tries)
	}
	if n := d.api.Count("create", "update"); n > 4*tries {
		t.Errorf("%d writes", n)
	}
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, enemy), iam.ErrLimited) // from now on the password makes no difference
	iamtest.Want(t, d.try(t, 1, "alice", iamtest.Password, home), nil)             // the owner, from another network
	d.settle(t)

	// A restart does not reset the counts.
	d.compared.Store(0)
	d.open(t, iamtest.Hash(t, iamtest.Password))
	iamtest.Want(t, d.try(t, 2, "alice", iamtest.Password, enemy), iam.ErrLimited)
	if n := d.compared.Load(); n != 0 {
		t.Errorf("%d comparisons after the restart", n)
	}
	iamtest.Want(t, d.try(t, 2, "alice", iamtest.Password, home), nil)

	d.clock.Step(31 * time.Minute)
	iamtest.Want(t, d.try(t, 2, "alice", iamtest.Password, enemy), nil)
}

// S47: a replica that has not received the count yet reads it before it compares.
func TestAFeedThatLagsGivesNoMoreTries(t *testing.T) {
	d := newDoors(t, 2)
	d.api.Hold(0)
	d.api.Hold(1)
	for i := range 4 * tries {
		_ = d.try(t, i%2, "alice", "Wrong-123", enemy)
	}
	if n := d.compared.Load(); n != tries {
		t.Errorf("%d comparisons, want %d", n, tries)
	}
}

// S50: a name without a user is limited like the name of a user.
func TestMadeUpNamesAreLimitedAlike(t *testing.T) {
	d := newDoors(t, 1)
	for _, name := range []string{"alice", "nobody", "nobody@example.com"} {
		for i := range 2 * tries {
			err := d.try(t, 0, name, "Wrong-123", enemy)
			if i < tries {
				iamtest.Want(t, err, iam.ErrCredentials)
			} else {
				iamtest.Want(t, err, iam.ErrLimited)
			}
		}
	}
}

func TestManyPlacesHaveOneBudgetAndTheOwnerGetsIn(t *testing.T) {
	d := newDoors(t, 2)
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, home), nil)
	d.settle(t)
	for i := range 1000 {
		_ = d.try(t, i%2, "alice", "Wrong-123", fmt.Sprintf("198.51.100.%d", i%250))
	}
	if n := d.compared.Load() - 1; n != tries*budgetOfPasswords {
		t.Errorf("%d guesses from everywhere, want %d", n, tries*budgetOfPasswords)
	}
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, "192.0.2.99"), iam.ErrLimited) // the owner, from an unknown network
	d.settle(t)
	third := d.open(t, iamtest.Hash(t, iamtest.Password)) // known networks survive a restart
	_, err := third.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: iam.Origin{Source: home}})
	iamtest.Want(t, err, nil)
	iamtest.Want(t, d.try(t, 0, "bob", iamtest.Password, "192.0.2.99"), nil) // other users are not affected
	if n := d.api.Count("create", "update"); n > 3*tries*budgetOfPasswords {
		t.Errorf("%d writes", n)
	}
	d.clock.Step(31 * time.Minute)
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, "192.0.2.99"), nil)
}

// A live session makes its network known for the user, even if nothing was written.
func TestAPlaceWithASessionIsKnown(t *testing.T) {
	d := newDoors(t, 1)
	for i := range tries * budgetOfPasswords {
		_ = d.try(t, 0, "alice", "Wrong-123", fmt.Sprintf("198.51.100.%d", i))
	}
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, home), iam.ErrLimited)
	d.visited = func(uid, source string) bool { return uid == "uid-alice" && source == home }
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, home), nil)
}

// A login from a known network costs no call, and a first one from a new network two writes.
func TestALoginFromAKnownPlaceWritesNothing(t *testing.T) {
	d := newDoors(t, 1)
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, home), nil)
	d.settle(t)
	if n := d.api.Count("create", "update"); n != 2 {
		t.Errorf("%d writes for the first login", n)
	}
	d.api.BreakWith(errors.New("no calls"))
	for range 100 {
		iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, home), nil)
	}
	d.api.Mend()
	if n := d.api.Count("create", "update", "get"); n != 2 {
		t.Errorf("%d calls", n)
	}
	d.clock.Step(8 * 24 * time.Hour)
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, home), nil)
	d.settle(t)
	if n := d.api.Count("update"); n != 2 {
		t.Errorf("the note of the place was not renewed: %d updates", n)
	}
}

func TestASuccessForgetsTheSlipsOfItsPlace(t *testing.T) {
	d := newDoors(t, 1)
	for range 4 {
		for range tries - 1 {
			iamtest.Want(t, d.try(t, 0, "alice", "Wrong-123", home), iam.ErrCredentials)
		}
		iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, home), nil)
		d.settle(t)
	}
	if led := d.api.Read("uid-alice").Spec; led.Guesses.Count != 0 || len(led.Failures) != 0 {
		t.Errorf("left: %+v", led)
	}
}

// From a known network, two attempts run at a time; a right one that ends beyond the limit is refused like the others.
func TestOfAKnownPlaceALateSuccessIsRefused(t *testing.T) {
	d := newDoors(t, 2)
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, home), nil)
	d.settle(t)
	l := d.all[0].Lockout
	a, err := l.Begin(t.Context(), lockout.Password, d.all[0].Passwords.Users.ByName("alice"), "alice", iam.Origin{Source: home})
	iamtest.Want(t, err, nil)
	for range tries {
		iamtest.Want(t, d.try(t, 1, "alice", "Wrong-123", home), iam.ErrCredentials)
	}
	iamtest.Want(t, a.Succeed(true), iam.ErrLimited)
}

// Logins go on without the API, and each replica counts by itself.
func TestWithoutTheAPIEachReplicaCountsForItself(t *testing.T) {
	d := newDoors(t, 2)
	d.api.BreakWith(errors.New("the API is gone"))
	for i := range 20 * tries {
		_ = d.try(t, i%2, "alice", "Wrong-123", enemy)
	}
	if n := d.compared.Load(); n != 2*tries {
		t.Errorf("%d comparisons, want %d", n, 2*tries)
	}
	iamtest.Want(t, d.try(t, 0, "bob", iamtest.Password, home), nil)
	if n := d.api.Count("create", "update", "get"); n > 2 {
		t.Errorf("%d calls to an API that does not answer", n)
	}
	d.api.Mend()
	d.clock.Step(time.Minute)
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, enemy), iam.ErrLimited)
}

// An API that hangs delays a login by a bound, and many at once are no way past the limit.
func TestAnAPIThatHangsIsNoWayPastTheLimit(t *testing.T) {
	h := iamtest.Hash(t, iamtest.Password)
	synctest.Test(t, func(t *testing.T) {
		d := &doors{api: iamtest.NewObjects(func() *v1alpha1.Lockout { return &v1alpha1.Lockout{} }), clock: clocktesting.NewFakeClock(iamtest.Start())}
		d.open(t, h)
		d.api.Wait = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() { _ = d.try(t, 0, "alice", "Wrong-123", fmt.Sprintf("198.51.%d.%d", i>>8, i&255)) })
		}
		wg.Wait()
		if n := d.compared.Load(); n > tries*budgetOfPasswords {
			t.Errorf("%d comparisons", n)
		}
		if took := time.Since(began); took > 2*timeOfWrite {
			t.Errorf("it took %v", took)
		}
	})
}

// An attempt that could not be checked is not counted as a failure.
func TestWhatNobodyCouldTellDoesNotCount(t *testing.T) {
	d := newDoors(t, 1)
	l, u := d.all[0].Lockout, d.all[0].Passwords.Users.ByName("alice")
	for range 10 * tries {
		a, err := l.Begin(t.Context(), lockout.ByProvider("ldap"), u, "alice", iam.Origin{Source: enemy})
		iamtest.Want(t, err, nil)
		a.Cancel()
		d.settle(t)
	}
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, enemy), nil)
}

func TestSprayingManyNamesFromOnePlaceIsSlowedDown(t *testing.T) {
	d := newDoors(t, 1)
	iamtest.Want(t, d.try(t, 0, "bob", iamtest.Password, enemy), nil) // behind the same proxy
	d.settle(t)
	for i := range 10 * sprayLimit {
		_ = d.try(t, 0, fmt.Sprintf("nobody-%d", i), "Wrong-123", enemy)
	}
	if n := d.compared.Load() - 1; n != sprayLimit {
		t.Errorf("%d comparisons", n)
	}
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, enemy), iam.ErrLimited)
	iamtest.Want(t, d.try(t, 0, "bob", iamtest.Password, enemy), nil)
	d.clock.Step(sprayTime)
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, enemy), nil)
}

func TestALockoutOfAnOlderInstallationEndsByItself(t *testing.T) {
	d := newDoors(t, 1)
	users := d.all[0].Passwords.Users
	h := iamtest.Hash(t, iamtest.Password)
	old := func(u *iamapi.User) {
		u.Status.LastTransitionTime = iamtest.TimeOf(d.clock.Now())
	}
	users.Set(iamtest.User("alice", iamtest.WithPassword(h), iamtest.WithState(iamapi.UserAuthLimitExceeded), old))
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, home), iam.ErrLimited)
	d.clock.Step(31 * time.Minute)
	iamtest.Want(t, d.try(t, 0, "alice", iamtest.Password, home), nil)
}

// directory is a provider that treats all spellings of a name alike, and accepts no password.
type directory struct{ asked atomic.Int64 }

func (*directory) Check(context.Context) error { return nil }

func (d *directory) Login(context.Context, string, string) (*idp.Identity, error) {
	d.asked.Add(1)
	return nil, idp.ErrCredentials
}

// S47: a directory ignores case and blanks; all spellings of one name share the tries of one name, whether a User has it or not.
func TestSpellingsOfANameHaveNoTriesOfTheirOwn(t *testing.T) {
	for _, name := range []string{"alice", "alice\u0301", "carol.x"} {
		d := newDoors(t, 1)
		ldap := &directory{}
		d.all[0].Directory = idptest.Directory(t, &idp.Entry{Name: "ldap", Provider: ldap})
		rest := name[1:]
		for _, typed := range []string{
			name, strings.ToUpper(name), " " + name, name + "  ", name[:1] + "\u00ad" + rest, name[:1] + "\u200b" + rest, name[:1] + "\u034f" + rest,
			string(rune(name[0])-'a'+'\uff41') + rest, strings.ToUpper(name[:1]) + rest,
			name[:2] + strings.ToUpper(name[2:]), name + "\u00a0", "\t" + name,
		} {
			_, err := d.all[0].Password(t.Context(), login.Attempt{Login: typed, Password: "Wrong-123", Provider: "ldap", Origin: iam.Origin{Source: enemy}})
			if !errors.Is(err, iam.ErrCredentials) && !errors.Is(err, iam.ErrLimited) {
				t.Errorf("%q: %v", typed, err)
			}
		}
		if n := ldap.asked.Load(); n != tries {
			t.Errorf("%q: the directory was asked %d times, %d is the limit", name, n, tries)
		}
	}
}
