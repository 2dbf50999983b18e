package iam

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
)

func newPasswords(t testing.TB, users *UserIndex) *Passwords {
	t.Helper()
	p, err := NewPasswords(users, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// S50: whoever has not the right password sees one answer, at the price of one comparison.
func TestPasswordTellsNothingToWhoHasNotTheRightOne(t *testing.T) {
	h := hash(t, secret)
	users := NewUserIndex()
	users.Set(userObject("alice", withPassword(h)))
	users.Set(userObject("disabled", withPassword(h), withState(iamapi.UserDisabled)))
	users.Set(userObject("pending", withPassword(h), withState("")))
	users.Set(userObject("locked", withPassword(h), withState(iamapi.UserAuthLimitExceeded)))
	users.Set(userObject("clear", withPassword(secret)))
	users.Set(userObject("ldap"))
	p := newPasswords(t, users)
	compared := 0
	inner := p.compare
	p.dummy = []byte(h) // spares the test the cost
	p.compare = func(hash, password []byte) error {
		compared++
		return inner(hash, password)
	}
	for name, test := range map[string]struct {
		login, password string
		want            error
	}{
		"right":                 {"alice", secret, nil},
		"right, by e-mail":      {"Alice@example.com", secret, nil},
		"wrong":                 {"alice", "wrong", ErrCredentials},
		"empty":                 {"alice", "", ErrCredentials},
		"no such user":          {"nobody", secret, ErrCredentials}, // the dummy's own password is no way in
		"no such e-mail":        {"nobody@example.com", secret, ErrCredentials},
		"disabled, right":       {"disabled", secret, ErrSuspended},
		"disabled, wrong":       {"disabled", "wrong", ErrCredentials},
		"pending, right":        {"pending", secret, ErrSuspended},
		"locked, right":         {"locked", secret, ErrLimited},
		"locked, wrong":         {"locked", "wrong", ErrCredentials},
		"clear text in store":   {"clear", secret, ErrCredentials},
		"no password in store":  {"ldap", secret, ErrCredentials},
		"longer than bcrypt":    {"alice", secret + strings.Repeat("x", 100), ErrCredentials},
		"much longer":           {"alice", strings.Repeat("x", 1<<20), ErrCredentials},
		"the hash as password":  {"alice", h, ErrCredentials},
		"the dummy's user name": {"", secret, ErrCredentials},
	} {
		t.Run(name, func(t *testing.T) {
			compared = 0
			u, err := p.Authenticate(t.Context(), test.login, test.password)
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
	p := newPasswords(t, NewUserIndex())
	var got []byte
	p.compare = func(hash, _ []byte) error { got = hash; return errors.New("differs") }
	_, _ = p.Authenticate(t.Context(), "nobody", secret)
	if !strings.HasPrefix(string(got), "$2a$10$") || len(got) != 60 {
		t.Errorf("compared with %q", got)
	}
}

func TestUserWhoChangesDuringTheComparisonIsJudgedAnew(t *testing.T) {
	h := hash(t, secret)
	for name, test := range map[string]struct {
		then func(*UserIndex)
		want error
	}{
		"disabled": {func(u *UserIndex) { u.Set(userObject("alice", withPassword(h), withState(iamapi.UserDisabled))) }, ErrSuspended},
		"deleted":  {func(u *UserIndex) { u.Delete("", "alice") }, ErrCredentials},
		"another":  {func(u *UserIndex) { u.Set(userObject("alice", withPassword(h), withUID("other"))) }, ErrCredentials},
		"password": {func(u *UserIndex) { u.Set(userObject("alice", withPassword(hash(t, "Other123")))) }, ErrCredentials},
	} {
		t.Run(name, func(t *testing.T) {
			users := NewUserIndex()
			users.Set(userObject("alice", withPassword(h)))
			p := newPasswords(t, users)
			p.compare = func(_, _ []byte) error { test.then(users); return nil }
			if u, err := p.Authenticate(t.Context(), "alice", secret); !errors.Is(err, test.want) || u != nil {
				t.Errorf("got %v, %v", u, err)
			}
		})
	}
}

func TestPoolIsBoundedAndItsQueueToo(t *testing.T) {
	reg := prometheus.NewRegistry()
	users := NewUserIndex()
	p, err := NewPasswords(users, reg)
	if err != nil {
		t.Fatal(err)
	}
	workers := cap(p.workers)
	limit := waitingPerWorker * workers
	begun, end := make(chan struct{}, limit+workers), make(chan struct{})
	p.compare = func(_, _ []byte) error {
		begun <- struct{}{}
		<-end
		return errors.New("differs")
	}
	var wg sync.WaitGroup
	ask := func() { _, _ = p.Authenticate(context.Background(), "a", "b") }
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
	if _, err := p.Authenticate(t.Context(), "a", "b"); !errors.Is(err, ErrBusy) {
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
	p := newPasswords(t, NewUserIndex())
	for range cap(p.workers) {
		p.workers <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Authenticate(ctx, "a", "b"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if n := p.waiting.Load(); n != 0 {
		t.Errorf("%d still wait", n)
	}
}
