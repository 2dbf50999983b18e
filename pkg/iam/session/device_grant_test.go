package session

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
)

func approve(t testing.TB, r *replica, name string) {
	t.Helper()
	if err := r.Approve(t.Context(), Login{AuthnResult: iam.AuthnResult{User: r.users.ByName("alice")}, Client: "kubectl", Name: name,
		Scopes: []string{"openid"}}); err != nil {
		t.Fatal(err)
	}
}

func claimError(t testing.TB, r *replica, name, client string) error {
	t.Helper()
	_, _, _, err := r.Claim(t.Context(), name, client)
	return err
}

// T8628-2, T8628-3: approved on one replica, claimed on another, once, by its client.
func TestDeviceGetsItsSessionOnce(t *testing.T) {
	_, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	if err := claimError(t, r[1], "d1", "kubectl"); !errors.Is(err, iam.ErrWaiting) {
		t.Errorf("before: %v", err)
	}
	approve(t, r[0], "d1")
	if _, _, err := r[1].Find(t.Context(), "d1"); !errors.Is(err, iam.ErrOver) {
		t.Errorf("a session that waits is good: %v", err)
	}
	if len(r[0].Of("uid-alice")) != 0 {
		t.Error("listed before it is begun")
	}
	if err := claimError(t, r[1], "d1", "harbor"); !errors.Is(err, iam.ErrOver) {
		t.Errorf("another client: %v", err)
	}
	s, u, refresh, err := r[1].Claim(t.Context(), "d1", "kubectl")
	if err != nil || u.Name != "alice" || refresh == "" || s.Scopes[0] != "openid" {
		t.Fatal(err)
	}
	if !r[0].alive(t, s) || !r[1].alive(t, s) {
		t.Error("not good")
	}
	if _, _, _, err := r[0].Refresh(t.Context(), "kubectl", refresh, admit); err != nil {
		t.Error(err)
	}
	if err := claimError(t, r[0], "d1", "kubectl"); !errors.Is(err, iam.ErrUsed) {
		t.Errorf("again: %v", err)
	}
	if r[0].alive(t, s) || r[1].alive(t, s) {
		t.Error("the device code came in twice, and its session lives")
	}
	if err := r[0].Approve(t.Context(), Login{AuthnResult: iam.AuthnResult{User: r[0].users.ByName("alice")}, Client: "kubectl",
		Name: "d1"}); !errors.Is(err, iam.ErrUsed) {
		t.Errorf("approved again: %v", err)
	}
}

func TestFiftyParallelClaimsGiveOneSession(t *testing.T) {
	_, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	approve(t, r[0], "d1")
	var got atomic.Int64
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if claimError(t, r[i%2], "d1", "kubectl") == nil {
				got.Add(1)
			}
		})
	}
	wg.Wait()
	if got.Load() > 1 {
		t.Errorf("%d got it", got.Load())
	}
}

// T8628-3: denied, and expired after ten minutes.
func TestDeviceLearnsOfANo(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	if err := r[0].Deny(t.Context(), "d1", r[0].users.ByName("alice")); err != nil {
		t.Fatal(err)
	}
	if err := claimError(t, r[1], "d1", "kubectl"); !errors.Is(err, iam.ErrDenied) {
		t.Errorf("got %v", err)
	}
	if err := r[1].Approve(t.Context(), Login{AuthnResult: iam.AuthnResult{User: r[1].users.ByName("alice")}, Client: "kubectl",
		Name: "d1"}); !errors.Is(err, iam.ErrUsed) {
		t.Errorf("approved after the no: %v", err)
	}
	approve(t, r[0], "d2")
	for i := range r {
		r[i].clock.Step(CodeLife)
	}
	if err := claimError(t, r[1], "d2", "kubectl"); !errors.Is(err, iam.ErrOver) {
		t.Errorf("claimed after its time: %v", err)
	}
	r[0].clock.Step(31 * time.Second)
	r[0].Sweep(t.Context())
	if a.size() != 0 {
		t.Errorf("%d left behind", a.size())
	}
}

// T8628-7: polls are anonymous, so a name without an answer costs no call.
func TestPollsOfUnknownDevicesReachNoAPI(t *testing.T) {
	a, r := newReplicas(t, 1, nil)
	for i := range 1000 {
		if err := claimError(t, r[0], fmt.Sprint("d", i), "kubectl"); !errors.Is(err, iam.ErrWaiting) {
			t.Fatal(err)
		}
	}
	if len(a.calls) != 0 {
		t.Errorf("calls: %v", a.calls)
	}
}

func TestDevicesOfAUserAreBounded(t *testing.T) {
	_, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	tellUsers(iamtest.User("bob"), r...)
	for i := range maxWaiting {
		approve(t, r[0], fmt.Sprint("d", i))
	}
	if err := r[0].Deny(t.Context(), "one-more", r[0].users.ByName("alice")); !errors.Is(err, iam.ErrBusy) {
		t.Errorf("got %v", err)
	}
	if err := r[0].Deny(t.Context(), "of-bob", r[0].users.ByName("bob")); err != nil {
		t.Errorf("another user: %v", err)
	}
	r[0].clock.Step(CodeLife)
	approve(t, r[0], "later")
}

// The user is disabled between the approval and the device's poll.
func TestDeviceOfADisabledUserGetsNothing(t *testing.T) {
	_, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	approve(t, r[0], "d1")
	tellUsers(iamtest.User("alice", iamtest.WithState("Disabled")), r...)
	if err := claimError(t, r[0], "d1", "kubectl"); !errors.Is(err, iam.ErrOver) {
		t.Errorf("got %v", err)
	}
}

// A name that was given away only after the approval is known to every replica, also to one whose feed has not brought the session yet. A device asks
// for a name that may not be approved yet: for that no replica reads.
func TestAnOpenedSessionIsClaimedWhereTheFeedHasNotBroughtIt(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	a.hold(1)
	approve(t, r[0], "d1")
	iamtest.Want(t, claimError(t, r[1], "d1", "kubectl"), iam.ErrWaiting)
	if n := a.count("get"); n != 0 {
		t.Errorf("a poll of a device makes %d reads", n)
	}
	claim := func(i int, name, client string) (*Session, error) {
		s, _, _, err := r[i].ClaimOpened(t.Context(), name, client)
		return s, err
	}
	_, err := claim(1, "d1", "harbor")
	iamtest.Want(t, err, iam.ErrOver)
	_, err = claim(1, "unknown", "kubectl")
	iamtest.Want(t, err, iam.ErrOver)
	s, err := claim(1, "d1", "kubectl")
	if err != nil || !r[0].alive(t, s) || !r[1].alive(t, s) {
		t.Fatalf("%+v, %v", s, err)
	}
	_, err = claim(0, "d1", "kubectl")
	iamtest.Want(t, err, iam.ErrUsed)
	approve(t, r[0], "d2")
	a.fail(errors.New("down"))
	_, err = claim(1, "d2", "kubectl")
	iamtest.Want(t, err, iam.ErrUnavailable)
}
