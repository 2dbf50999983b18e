package session

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
)

// inBrowser opens a browser's session, and one in it with those scopes.
func inBrowser(t testing.TB, r *replica, name string, scopes ...string) (browser, child *Session) {
	t.Helper()
	u := r.users.ByName(name)
	browser, refresh, err := r.Open(t.Context(), Login{AuthnResult: iam.AuthnResult{User: u, Methods: []string{iam.MethodPassword}, At: iamtest.Start()},
		Origin: iam.Origin{Source: "127.0.0.1", UserAgent: "Browser"}})
	if err != nil || refresh != "" {
		t.Fatal(err, "or a refresh token in a browser")
	}
	child, _, err = r.Open(t.Context(), Login{AuthnResult: iam.AuthnResult{User: u}, Client: "harbor", Parent: browser.Name, Scopes: scopes, Name: r.NewName()})
	if err != nil {
		t.Fatal(err)
	}
	return browser, child
}

// TLogout-6: sessions opened in a browser end with it, on every replica, except those with offline_access.
func TestLogoutOfABrowserEndsWhatWasOpenedInIt(t *testing.T) {
	_, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	browser, online := inBrowser(t, r[0], "alice", "openid")
	_, elsewhere := inBrowser(t, r[0], "alice", "openid")
	offline, _, err := r[1].Open(t.Context(), Login{AuthnResult: iam.AuthnResult{User: r[1].users.ByName("alice")}, Client: "harbor", Parent: browser.Name,
		Scopes: []string{scopeOffline}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r[1].End(t.Context(), browser.Name, "logout"); err != nil {
		t.Fatal(err)
	}
	for i := range r {
		if r[i].alive(t, online) || !r[i].alive(t, elsewhere) || !r[i].alive(t, offline) {
			t.Errorf("replica %d: online %v, elsewhere %v, offline %v", i, r[i].alive(t, online), r[i].alive(t, elsewhere), r[i].alive(t, offline))
		}
		if _, _, err := r[i].Find(t.Context(), browser.Name); !errors.Is(err, iam.ErrOver) {
			t.Errorf("the browser: %v", err)
		}
	}
}

func TestLogoutOfAClientLeavesTheBrowser(t *testing.T) {
	_, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	browser, child := inBrowser(t, r[0], "alice")
	if err := r[0].End(t.Context(), child.Name, "logout"); err != nil {
		t.Fatal(err)
	}
	if _, u, err := r[0].Find(t.Context(), browser.Name); err != nil || u.Name != "alice" {
		t.Error(err)
	}
}

// A replica stopped after it ended the browser's session, and before it ended the sessions opened in it.
func TestChildOfABrowserThatIsGoneIsRefusedAfterARestart(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	browser, child := inBrowser(t, r[0], "alice")
	a.mu.Lock()
	delete(a.objects, browser.Name)
	a.mu.Unlock()
	r[1] = restart(t, a, 1)
	tellUsers(iamtest.User("alice"), r[1])
	r[1].clock.Step(orphanAge)
	if r[1].alive(t, child) {
		t.Error("good without its browser")
	}
	r[1].Sweep(t.Context())
	if o := a.objects[child.Name]; o != nil && o.Phase == "" {
		t.Error("its object is still there")
	}
}

func TestSessionInABrowserIsOfItsUserAndDoesNotOutliveIt(t *testing.T) {
	_, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	tellUsers(iamtest.User("bob"), r...)
	browser, _ := inBrowser(t, r[0], "alice")
	r[0].clock.Step(time.Hour)
	child, _, err := r[0].Open(t.Context(), Login{AuthnResult: iam.AuthnResult{User: r[0].users.ByName("alice")}, Client: "c", Parent: browser.Name})
	if err != nil || !child.Expires.Equal(browser.Expires) {
		t.Errorf("%v, ends %v", err, child.Expires)
	}
	for name, l := range map[string]Login{
		"of another user":  {AuthnResult: iam.AuthnResult{User: r[0].users.ByName("bob")}, Client: "c", Parent: browser.Name},
		"in no browser":    {AuthnResult: iam.AuthnResult{User: r[0].users.ByName("alice")}, Client: "c", Parent: child.Name},
		"in what is not":   {AuthnResult: iam.AuthnResult{User: r[0].users.ByName("alice")}, Client: "c", Parent: "nothing"},
		"a client's own":   {Client: "c", Parent: browser.Name},
		"a registration's": {AuthnResult: iam.AuthnResult{Registration: &iam.Registration{Provider: "p", Subject: "s"}}, Client: "c", Parent: browser.Name},
	} {
		if _, _, err := r[0].Open(t.Context(), l); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

// multipleLogin: false. A browser and what is opened in it are one login.
func TestSingleLoginKeepsTheWholeOfTheNewest(t *testing.T) {
	_, r := newReplicas(t, 2, func(o *Options) { o.Single = true })
	tellUsers(iamtest.User("alice"), r...)
	oldBrowser, oldChild := inBrowser(t, r[0], "alice")
	browser, child := inBrowser(t, r[1], "alice")
	if _, _, err := r[0].Open(t.Context(), Login{AuthnResult: iam.AuthnResult{User: r[0].users.ByName("alice")}, Client: "c",
		Parent: oldBrowser.Name}); err == nil {
		t.Error("opened in a browser that is logged out")
	}
	for i := range r {
		if r[i].alive(t, oldChild) || !r[i].alive(t, child) {
			t.Errorf("replica %d: old %v, new %v", i, r[i].alive(t, oldChild), r[i].alive(t, child))
		}
		if _, _, err := r[i].Find(t.Context(), browser.Name); err != nil {
			t.Errorf("replica %d: %v", i, err)
		}
	}
}

func TestSessionsOfAUserAreListedTheNewestFirst(t *testing.T) {
	_, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	login(t, r[0], "alice")
	r[0].clock.Step(4 * time.Hour) // over, since it was not refreshed
	browser, child := inBrowser(t, r[0], "alice")
	got := r[0].Of("uid-alice")
	if len(got) != 2 || got[0].Name != child.Name || got[1].Name != browser.Name {
		t.Fatalf("%d listed", len(got))
	}
	b := got[1]
	if b.Source != "127.0.0.1" || b.UserAgent != "Browser" || len(b.Methods) != 1 || !b.Authenticated.Equal(iamtest.Start()) || got[0].Parent != b.Name {
		t.Errorf("%+v", b)
	}
}

func TestEndAllSparesOneAndWhatWasOpenedInIt(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	tellUsers(iamtest.User("bob"), r...)
	bob, _ := login(t, r[0], "bob")
	browser, child := inBrowser(t, r[0], "alice")
	other, _ := login(t, r[0], "alice")
	if err := r[1].EndAll(t.Context(), "uid-alice", browser.Name, "revoked"); err != nil {
		t.Fatal(err)
	}
	for i := range r {
		if r[i].alive(t, other) || !r[i].alive(t, child) || !r[i].alive(t, bob) {
			t.Errorf("replica %d: %v %v %v", i, r[i].alive(t, other), r[i].alive(t, child), r[i].alive(t, bob))
		}
	}
	if err := r[0].EndAll(t.Context(), "uid-alice", "", "revoked"); err != nil || r[1].alive(t, child) || !r[1].alive(t, bob) {
		t.Error("not all of them, or too many", err)
	}
	login(t, r[0], "alice")
	a.fail(errors.New("down"))
	if err := r[0].EndAll(t.Context(), "uid-alice", "", "revoked"); !errors.Is(err, iam.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestConsentIsKnownOnAllReplicas(t *testing.T) {
	_, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	browser, child := inBrowser(t, r[0], "alice")
	if r[0].Consented(browser.Name, "harbor", []string{"openid"}) {
		t.Error("before he was asked")
	}
	var wg sync.WaitGroup
	for i, scope := range []string{"openid", "email", "groups"} {
		wg.Go(func() {
			if err := r[i%2].Consent(t.Context(), browser.Name, "harbor", []string{scope}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range r {
		if !r[i].Consented(browser.Name, "harbor", []string{"groups", "openid", "email"}) {
			t.Errorf("replica %d has lost one", i)
		}
		if r[i].Consented(browser.Name, "harbor", []string{"openid", scopeOffline}) || r[i].Consented(browser.Name, "gitlab", nil) {
			t.Error("more than he said")
		}
	}
	if err := r[0].Consent(t.Context(), child.Name, "harbor", nil); !errors.Is(err, iam.ErrOver) {
		t.Errorf("in a client's session: %v", err)
	}
	if err := r[0].Consent(t.Context(), "nothing", "harbor", nil); !errors.Is(err, iam.ErrOver) {
		t.Errorf("in none: %v", err)
	}
}

func TestConsentsAreBounded(t *testing.T) {
	_, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	browser, _ := inBrowser(t, r[0], "alice")
	for i := range maxConsents + 1 {
		if err := r[0].Consent(t.Context(), browser.Name, fmt.Sprint("c", i), []string{"openid"}); err != nil {
			t.Fatal(err)
		}
	}
	if r[0].Consented(browser.Name, "c0", nil) || !r[0].Consented(browser.Name, "c1", nil) || !r[0].Consented(browser.Name, fmt.Sprint("c", maxConsents), nil) {
		t.Error("the oldest should have gone, and no other")
	}
}

// S12: a replica whose feed is interrupted forgets a browser's session that it has changed. That ends nothing that was opened in it.
func TestWhatAReplicaLostSightOfIsNotLoggedOut(t *testing.T) {
	a, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	browser, child := inBrowser(t, r[0], "alice")
	r[0].clock.Step(orphanAge + 1)
	a.hold(0)
	if err := r[0].Consent(t.Context(), browser.Name, "c", nil); err != nil {
		t.Fatal(err)
	}
	r[0].clock.Step(unconfirmed + 1)
	for range 2 {
		r[0].Sweep(t.Context())
	}
	if o := a.objects[child.Name]; o == nil || o.Phase != "" {
		t.Errorf("what was opened in the browser is %v", o)
	}
	a.release(0)
	if err := r[0].End(t.Context(), browser.Name, "logout"); err != nil {
		t.Fatal(err)
	}
	if r[0].Sweep(t.Context()); a.objects[child.Name] != nil && a.objects[child.Name].Phase == "" {
		t.Error("it outlives the browser's session")
	}
}

func TestLateEventDoesNotTakeAConsentBack(t *testing.T) {
	a, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	browser, _ := inBrowser(t, r[0], "alice")
	a.hold(0)
	for _, client := range []string{"c1", "c2"} {
		if err := r[0].Consent(t.Context(), browser.Name, client, nil); err != nil {
			t.Fatal(err)
		}
	}
	a.feeds[0].Late[0]() // delivers the first event only
	if !r[0].Consented(browser.Name, "c2", nil) {
		t.Error("forgotten")
	}
}
