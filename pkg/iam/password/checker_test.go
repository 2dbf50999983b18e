package password

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
)

func newPasswords(t testing.TB, users *iam.UserIndex) *Checker {
	t.Helper()
	p, err := New(users, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// S50: a client without the right password gets one and the same answer, at the price of one comparison.
func TestPasswordTellsNothingToWhoHasNotTheRightOne(t *testing.T) {
	h := iamtest.Hash(t, iamtest.Password)
	users := iam.NewUserIndex()
	users.Set(iamtest.User("alice", iamtest.WithPassword(h)))
	users.Set(iamtest.User("disabled", iamtest.WithPassword(h), iamtest.WithState(iamapi.UserDisabled)))
	users.Set(iamtest.User("pending", iamtest.WithPassword(h), iamtest.WithState("")))
	users.Set(iamtest.User("locked", iamtest.WithPassword(h), iamtest.WithState(iamapi.UserAuthLimitExceeded)))
	users.Set(iamtest.User("clear", iamtest.WithPassword(iamtest.Password)))
	users.Set(iamtest.User("ldap"))
	p := newPasswords(t, users)
	compared := 0
	inner := p.Compare
	p.Dummy = []byte(h) // saves the test the cost of a real hash
	p.Compare = func(hash, password []byte) error {
		compared++
		return inner(hash, password)
	}
	for name, test := range map[string]struct {
		login, password string
		want            error
	}{
		"right":                 {"alice", iamtest.Password, nil},
		"right, by e-mail":      {"Alice@example.com", iamtest.Password, nil},
		"wrong":                 {"alice", "wrong", iam.ErrCredentials},
		"empty":                 {"alice", "", iam.ErrCredentials},
		"no such user":          {"nobody", iamtest.Password, iam.ErrCredentials}, // the dummy's own password is not accepted
		"no such e-mail":        {"nobody@example.com", iamtest.Password, iam.ErrCredentials},
		"disabled, right":       {"disabled", iamtest.Password, iam.ErrSuspended},
		"disabled, wrong":       {"disabled", "wrong", iam.ErrCredentials},
		"new, right":            {"pending", iamtest.Password, nil}, // the state Active has not arrived yet
		"locked, right":         {"locked", iamtest.Password, iam.ErrLimited},
		"locked, wrong":         {"locked", "wrong", iam.ErrCredentials},
		"clear text in store":   {"clear", iamtest.Password, iam.ErrCredentials},
		"no password in store":  {"ldap", iamtest.Password, iam.ErrCredentials},
		"longer than bcrypt":    {"alice", iamtest.Password + strings.Repeat("x", 100), iam.ErrCredentials},
		"much longer":           {"alice", strings.Repeat("x", 1<<20), iam.ErrCredentials},
		"the hash as password":  {"alice", h, iam.ErrCredentials},
		"the dummy's user name": {"", iamtest.Password, iam.ErrCredentials},
	} {
		t.Run(name, func(t *testing.T) {
			compared = 0
			u, err := p.Check(t.Context(), test.login, test.password)
			if !errors.Is(err, test.want) || (u != nil) != (test.want == nil) {
				t.Errorf("got %v, %v; want %v", u, err, test.want)
			}
			if compared != 1 {
				t.Errorf("%d comparisons", compared)
			}
		})
	}
}

func TestUnknownUserCostsAsMuchAsAKnownOne(t *testing.T) {
	p := newPasswords(t, iam.NewUserIndex())
	var got []byte
	p.Compare = func(hash, _ []byte) error { got = hash; return errors.New("differs") }
	_, _ = p.Check(t.Context(), "nobody", iamtest.Password)
	if !strings.HasPrefix(string(got), "$2a$10$") || len(got) != 60 {
		t.Errorf("compared with %q", got)
	}
}

func TestUserWhoChangesDuringTheComparisonIsVerifiedAgain(t *testing.T) {
	h := iamtest.Hash(t, iamtest.Password)
	for name, test := range map[string]struct {
		then func(*iam.UserIndex)
		want error
	}{
		"disabled": {func(u *iam.UserIndex) {
			u.Set(iamtest.User("alice", iamtest.WithPassword(h), iamtest.WithState(iamapi.UserDisabled)))
		}, iam.ErrSuspended},
		"deleted": {func(u *iam.UserIndex) { u.Delete("", "alice") }, iam.ErrCredentials},
		"another": {func(u *iam.UserIndex) {
			u.Set(iamtest.User("alice", iamtest.WithPassword(h), iamtest.WithUID("other")))
		}, iam.ErrCredentials},
		"password": {func(u *iam.UserIndex) {
			u.Set(iamtest.User("alice", iamtest.WithPassword(iamtest.Hash(t, "Other123"))))
		}, iam.ErrCredentials},
	} {
		t.Run(name, func(t *testing.T) {
			users := iam.NewUserIndex()
			users.Set(iamtest.User("alice", iamtest.WithPassword(h)))
			p := newPasswords(t, users)
			p.Compare = func(_, _ []byte) error { test.then(users); return nil }
			if u, err := p.Check(t.Context(), "alice", iamtest.Password); !errors.Is(err, test.want) || u != nil {
				t.Errorf("got %v, %v", u, err)
			}
		})
	}
}

func TestPoolIsBoundedAndItsQueueToo(t *testing.T) {
	reg := prometheus.NewRegistry()
	users := iam.NewUserIndex()
	p, err := New(users, reg)
	if err != nil {
		t.Fatal(err)
	}
	workers := cap(p.workers)
	limit := waitingPerWorker * workers
	begun, end := make(chan struct{}, limit+workers), make(chan struct{})
	p.Compare = func(_, _ []byte) error {
		begun <- struct{}{}
		<-end
		return errors.New("differs")
	}
	var wg sync.WaitGroup
	ask := func() { _, _ = p.Check(context.Background(), "a", "b") }
	for range workers {
		wg.Go(ask)
	}
	for range workers {
		<-begun
	}
	for range limit {
		wg.Go(ask)
	}
	for p.waiting.Load() < int64(limit) {
		runtime.Gosched()
	}
	if _, err := p.Check(t.Context(), "a", "b"); !errors.Is(err, iam.ErrBusy) {
		t.Errorf("one too many: %v", err)
	}
	if n := len(begun); n != 0 {
		t.Errorf("%d more were checked than there are workers", n)
	}
	close(end)
	wg.Wait()
	if busy := testutil.ToFloat64(p.results.WithLabelValues("busy")); busy != 1 {
		t.Errorf("%v busy answers counted", busy)
	}
}

func TestWaitingEndsWithTheRequest(t *testing.T) {
	p := newPasswords(t, iam.NewUserIndex())
	for range cap(p.workers) {
		p.workers <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Check(ctx, "a", "b"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if n := p.waiting.Load(); n != 0 {
		t.Errorf("%d still wait", n)
	}
}
