package session

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/token"
)

func TestSessionOpenedOnOneReplicaIsGoodOnAllWithoutACall(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	s, _ := login(t, r[0], "alice")
	for i := range r {
		if !r[i].alive(t, s) {
			t.Errorf("refused on replica %d", i)
		}
	}
	if n := a.count("get"); n != 0 {
		t.Errorf("%d reads", n)
	}
}

func TestSessionThatTheFeedHasNotBroughtIsReadOnce(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	a.hold(1)
	s, _ := login(t, r[0], "alice")
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if !r[1].alive(t, s) {
				t.Error("refused")
			}
		})
	}
	wg.Wait()
	for range 50 {
		if !r[1].alive(t, s) {
			t.Error("refused")
		}
	}
	if n := a.count("get"); n > 50 || n == 0 {
		t.Errorf("%d reads", n)
	}
	before := a.count("get")
	a.release(1)
	r[1].clock.Step(2 * unconfirmed)
	if !r[1].alive(t, s) || a.count("get") != before {
		t.Error("a session that the feed has confirmed is read again")
	}
}

// S36: a logout on one replica is final there at once, and elsewhere once the feed brings it; an ended session does not
// come back when events are late or repeated.
func TestLogoutIsFinal(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	s, refresh := login(t, r[0], "alice")
	a.hold(0)
	if err := r[0].End(t.Context(), s.Name, "logout"); err != nil {
		t.Fatal(err)
	}
	if r[0].alive(t, s) {
		t.Error("good where it was ended, before the feed")
	}
	if r[1].alive(t, s) {
		t.Error("good on the other replica after its feed")
	}
	raw := &store.Object{Name: s.Name, Raw: sessionJSON(t, s)}
	r[0].Set(raw)
	if r[0].alive(t, s) {
		t.Error("an old event brought it back")
	}
	a.release(0)
	for i := range r {
		if _, _, _, err := r[i].Refresh(t.Context(), "kubesphere", refresh, admit); !errors.Is(err, iam.ErrRefresh) {
			t.Errorf("refresh on replica %d: %v", i, err)
		}
	}
	if err := r[1].End(t.Context(), s.Name, "logout"); err != nil {
		t.Errorf("a second logout: %v", err)
	}
}

func sessionJSON(t testing.TB, s *Session) []byte {
	t.Helper()
	return []byte(`{"metadata":{"name":"` + s.Name + `","uid":"uid-of-` + s.Name + `"},"spec":{"user":"` + s.User + `","userUID":"` + s.UserUID +
		`","client":"` + s.Client + `","createdAt":"2026-11-21T12:00:00Z","expiresAt":"2026-12-21T12:00:00Z"}}`)
}

// S36: revocation survives a restart, since it is the absence of an object.
func TestEndedSessionIsUnknownAfterARestart(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice"), r...)
	a.hold(1) // a replica that has never seen the session
	s, _ := login(t, r[0], "alice")
	if err := r[0].End(t.Context(), s.Name, "logout"); err != nil {
		t.Fatal(err)
	}
	if r[1].alive(t, s) {
		t.Error("good on a replica that knows nothing")
	}
	reads := a.count("get")
	if r[1].alive(t, s) || a.count("get") != reads {
		t.Error("what is gone is asked for again")
	}
}

// S12, S34, S37: a change of the user ends the user's sessions, on every replica, at once.
func TestChangeOfTheUserEndsHisSessions(t *testing.T) {
	h := iamtest.Hash(t, iamtest.Password)
	for name, test := range map[string]struct {
		change func(*replica)
		lives  bool
		// returns says that the user's former state comes back; the session must not.
		returns bool
	}{
		"disabled": {func(r *replica) {
			r.users.Set(iamtest.User("alice", iamtest.WithPassword(h), iamtest.WithState(iamapi.UserDisabled)))
		}, false, true},
		"deleted": {func(r *replica) { r.users.Delete("", "alice") }, false, true},
		"made again": {func(r *replica) {
			r.users.Set(iamtest.User("alice", iamtest.WithPassword(h), iamtest.WithUID("other")))
		}, false, false},
		"password changed": {func(r *replica) {
			r.users.Set(iamtest.User("alice", iamtest.WithPassword(iamtest.Hash(t, "Other123"))))
		}, false, true},
		"password in clear": {func(r *replica) { r.users.Set(iamtest.User("alice", iamtest.WithPassword("Other123"))) }, false, true},
		"unreadable":        {func(r *replica) { r.users.Set(&store.Object{Name: "alice", Raw: []byte("{")}) }, false, true},
		"locked by guessing": {func(r *replica) {
			r.users.Set(iamtest.User("alice", iamtest.WithPassword(h), iamtest.WithState(iamapi.UserAuthLimitExceeded)))
		}, true, false},
		"pending for a moment": {func(r *replica) { r.users.Set(iamtest.User("alice", iamtest.WithPassword(h), iamtest.WithState(""))) }, true, false},
		"e-mail changed": {func(r *replica) {
			r.users.Set(iamtest.User("alice", iamtest.WithPassword(h), func(u *iamapi.User) { u.Spec.Email = "x@example.com" }))
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, r := newReplicas(t, 2, nil)
			tellUsers(iamtest.User("alice", iamtest.WithPassword(h)), r...)
			s, refresh := login(t, r[0], "alice")
			for i := range r {
				test.change(r[i])
				if got := r[i].alive(t, s); got != test.lives {
					t.Errorf("replica %d: alive is %v", i, got)
				}
			}
			if test.lives {
				return
			}
			if _, _, _, err := r[0].Refresh(t.Context(), "kubesphere", refresh, admit); !errors.Is(err, iam.ErrRefresh) {
				t.Errorf("refresh: %v", err)
			}
			if !test.returns {
				return
			}
			tellUsers(iamtest.User("alice", iamtest.WithPassword(h)), r...)
			if r[0].alive(t, s) || r[1].alive(t, s) {
				t.Error("the session came back with the user")
			}
			r[0].Sweep(t.Context())
			if a.size() != 0 {
				t.Error("its object is still there")
			}
		})
	}
}

// A replica whose feed of users lags sees a session of the new password before the password itself.
func TestSessionOfANewPasswordSurvivesALateUserEvent(t *testing.T) {
	_, r := newReplicas(t, 2, nil)
	before, after := iamtest.Hash(t, iamtest.Password), iamtest.Hash(t, "Other123")
	tellUsers(iamtest.User("alice", iamtest.WithPassword(before)), r...)
	tellUsers(iamtest.User("alice", iamtest.WithPassword(after)), r[0])
	s, _ := login(t, r[0], "alice")
	if r[1].alive(t, s) {
		t.Error("good before the replica knows the password")
	}
	tellUsers(iamtest.User("alice", iamtest.WithPassword(after)), r[1])
	if !r[0].alive(t, s) || !r[1].alive(t, s) {
		t.Error("refused when the replica knows all")
	}
}

// D12: the page of the first password goes on in its session. All others of the user end, and it ends too with the next password.
func TestD12TheSessionThatSetThePasswordGoesOn(t *testing.T) {
	a, r := newReplicas(t, 2, nil)
	withPassword := func(password, session string) *store.Object {
		return iamtest.User("alice", iamtest.WithPassword(iamtest.Hash(t, password)), func(u *iamapi.User) {
			u.Annotations = map[string]string{iamapi.AnnotationPasswordSession: session}
		})
	}
	tellUsers(withPassword(iamtest.Password, ""), r...)
	s, refresh := login(t, r[0], "alice")
	other, _ := login(t, r[0], "alice")
	tellUsers(withPassword("Other123", s.Fingerprint()), r...)
	for i := range r {
		if !r[i].alive(t, s) || r[i].alive(t, other) {
			t.Errorf("replica %d: the one that set the password is alive: %v; the other: %v", i, r[i].alive(t, s), r[i].alive(t, other))
		}
	}
	if _, _, _, err := r[1].Refresh(t.Context(), "kubesphere", refresh, admit); err != nil {
		t.Errorf("refresh: %v", err)
	}
	tellUsers(withPassword("Third123", other.Fingerprint()), r...)
	for i := range r {
		if r[i].alive(t, s) || r[i].alive(t, other) {
			t.Errorf("replica %d, after the next password: the first is alive: %v; the other: %v", i, r[i].alive(t, s), r[i].alive(t, other))
		}
		r[i].Sweep(t.Context())
	}
	if a.size() != 0 {
		t.Errorf("%d objects are left", a.size())
	}
}

func TestTokenMustNameTheUserAndClientOfItsSession(t *testing.T) {
	_, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	tellUsers(iamtest.User("bob"), r...)
	s, _ := login(t, r[0], "alice")
	for name, change := range map[string]func(*token.Access){
		"subject": func(a *token.Access) { a.Subject = "uid-bob" },
		"name":    func(a *token.Access) { a.Username = "bob" },
		"client":  func(a *token.Access) { a.Client = "other" },
		"session": func(a *token.Access) { a.Session = "unknown" },
	} {
		a := access(s)
		change(a)
		if _, err := r[0].Authenticate(t.Context(), a); !errors.Is(err, iam.ErrOver) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSessionsOfAUserAreBounded(t *testing.T) {
	a, r := newReplicas(t, 2, func(o *Options) { o.PerUser = 3 })
	tellUsers(iamtest.User("alice"), r...)
	var all []*Session
	for range 5 {
		s, _ := login(t, r[0], "alice")
		all = append(all, s)
		r[0].clock.Step(time.Second)
	}
	for i, s := range all {
		if got, want := r[0].alive(t, s), i >= 2; got != want {
			t.Errorf("session %d: alive is %v", i, got)
		}
	}
	r[0].Sweep(t.Context())
	if a.size() != 3 || r[1].alive(t, all[0]) || !r[1].alive(t, all[4]) {
		t.Errorf("%d objects", a.size())
	}
}

func TestABrowserIsNotCrowdedOutByWhatIsOpenedInIt(t *testing.T) {
	_, r := newReplicas(t, 1, func(o *Options) { o.PerUser = 3 })
	tellUsers(iamtest.User("alice"), r...)
	u := r[0].users.ByName("alice")
	open := func(l Login) *Session {
		t.Helper()
		l.AuthnResult = iam.AuthnResult{User: u}
		s, _, err := r[0].Open(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		r[0].clock.Step(time.Second)
		return s
	}
	browser := open(Login{})
	var children []*Session
	for range 5 {
		children = append(children, open(Login{Client: "harbor", Parent: browser.Name}))
	}
	if _, _, err := r[0].Find(t.Context(), browser.Name); err != nil {
		t.Errorf("the browser's session: %v", err)
	}
	for i, s := range children {
		if got, want := r[0].alive(t, s), i >= 3; got != want {
			t.Errorf("session %d: alive is %v", i, got)
		}
	}
	open(Login{Client: "kubesphere"}) // a session that is not of that browser evicts the oldest
	if _, _, err := r[0].Find(t.Context(), browser.Name); !errors.Is(err, iam.ErrOver) {
		t.Errorf("the browser's session: %v", err)
	}
}

// multipleLogin: false. The clock of one replica is ahead, and still the newest login stays.
func TestSingleLoginEndsTheOthers(t *testing.T) {
	a, r := newReplicas(t, 2, func(o *Options) { o.Single = true })
	tellUsers(iamtest.User("alice"), r...)
	tellUsers(iamtest.User("bob"), r...)
	bob, _ := login(t, r[0], "bob")
	r[0].clock.Step(20 * time.Second)
	first, _ := login(t, r[0], "alice")
	second, _ := login(t, r[1], "alice")
	for i := range r {
		if r[i].alive(t, first) || !r[i].alive(t, second) || !r[i].alive(t, bob) {
			t.Errorf("replica %d: first %v, second %v, bob %v", i, r[i].alive(t, first), r[i].alive(t, second), r[i].alive(t, bob))
		}
	}
	r[1].Sweep(t.Context())
	if a.size() != 2 {
		t.Errorf("%d objects", a.size())
	}
}

// A replica that has just started may know a session before its user: nobody is logged out by that.
func TestAUserWhoIsNotKnownYetIsNotGone(t *testing.T) {
	synced := false
	_, r := newReplicas(t, 1, func(o *Options) { o.Synced = func() bool { return synced } })
	tellUsers(iamtest.User("ann", iamtest.WithPassword(iamtest.Hash(t, iamtest.Password))), r...)
	ann, _ := login(t, r[0], "ann")
	r[0].users.OnChange(func(_, _ *iam.User) {}) // as after a restart: there is no event for it
	r[0].users.Delete("", "ann")
	for _, want := range []error{iam.ErrUnavailable, iam.ErrOver} {
		if _, err := r[0].Authenticate(t.Context(), access(ann)); !errors.Is(err, want) || apierrors.IsServiceUnavailable(err) == synced {
			t.Errorf("all is known: %v: got %v, want %v", synced, err, want)
		}
		synced = true
	}
}

func TestSweepDeletesWhatIsOver(t *testing.T) {
	h := iamtest.Hash(t, iamtest.Password)
	synced := false
	a, r := newReplicas(t, 1, func(o *Options) { o.Synced = func() bool { return synced } })
	for _, name := range []string{"idle", "gone", "busy"} {
		tellUsers(iamtest.User(name, iamtest.WithPassword(h)), r...)
	}
	idle, _ := login(t, r[0], "idle")
	r[0].clock.Step(2 * time.Hour)
	gone, _ := login(t, r[0], "gone")
	busy, _ := login(t, r[0], "busy")
	r[0].clock.Step(time.Hour + 31*time.Second)
	r[0].users.OnChange(func(_, _ *iam.User) {}) // as after a restart: there is no event for it
	r[0].users.Delete("", "gone")
	r[0].users.OnChange(r[0].userChanged)
	r[0].Sweep(t.Context())
	if a.objects[idle.Name] == nil || a.objects[gone.Name] == nil || a.objects[busy.Name] == nil {
		t.Error("before all is known, nothing goes that has not come to its absolute end")
	}
	synced = true
	r[0].Sweep(t.Context())
	if a.objects[idle.Name] != nil || a.objects[gone.Name] != nil || a.objects[busy.Name] == nil {
		t.Error("when all is known, what is idle goes, and sessions without a user")
	}
	synced = false
	r[0].clock.Step(DefaultAbsolute)
	r[0].Sweep(t.Context())
	if a.size() != 0 {
		t.Error("the absolute end waits for nothing")
	}
}

// O49: a replica whose users are behind ends no session for all by what it has not been told of them; what is idle needs no user.
func TestSweepEndsNothingByUsersWhoAreNotKnownInFull(t *testing.T) {
	unknown := errors.New("the watch is broken")
	a, r := newReplicas(t, 1, func(o *Options) { o.Enabled = func(string) bool { return true } })
	r[0].users.CompleteBy(func() error { return unknown })
	r[0].users.OnChange(func(_, _ *iam.User) {})
	h := iamtest.WithPassword(iamtest.Hash(t, iamtest.Password))
	tellUsers(iamtest.User("idle", h), r...)
	idle, _ := login(t, r[0], "idle")
	r[0].clock.Step(2 * time.Hour)
	var behind []*Session
	for _, name := range []string{"gone", "again", "unlinked"} {
		tellUsers(iamtest.User(name, h, iamtest.WithLink("github", name)), r...)
		p := iam.AuthnResult{User: r[0].users.ByName(name), Provider: "github", Subject: name}
		s, _, err := r[0].Open(t.Context(), Login{AuthnResult: p, Client: "kubesphere"})
		if err != nil {
			t.Fatal(err)
		}
		behind = append(behind, s)
	}
	r[0].clock.Step(time.Hour + 31*time.Second)
	r[0].users.Delete("", "gone")
	tellUsers(iamtest.User("again", h, func(u *iamapi.User) { u.UID = "uid-of-another" }), r...)
	tellUsers(iamtest.User("unlinked", h), r...)
	for range 2 {
		r[0].Sweep(t.Context())
		if a.objects[idle.Name] != nil {
			t.Error("what is idle stays")
		}
		for _, s := range behind {
			if (a.objects[s.Name] == nil) != (unknown == nil) {
				t.Errorf("all is known: %v: the session of %s is deleted: %v", unknown == nil, s.User, a.objects[s.Name] == nil)
			}
		}
		unknown = nil
	}
}

// A replica that has just started does not know yet how long the sessions of clients live, nor their secrets, nor the
// providers: no session ends because of that.
func TestNothingEndsForWhatIsNotKnownYet(t *testing.T) {
	var known atomic.Bool
	known.Store(true)
	a, r := newReplicas(t, 1, func(o *Options) {
		o.Synced = known.Load
		o.ClientCredential = func(string) string {
			if known.Load() {
				return "canary"
			}
			return ""
		}
		o.Lifetime = func(string) Lifetime {
			if known.Load() {
				return Lifetime{MaxAge: 24 * time.Hour, Inactivity: 24 * time.Hour}
			}
			return Lifetime{MaxAge: time.Hour, Inactivity: time.Hour}
		}
	})
	tellUsers(iamtest.User("alice"), r...)
	_, refresh := login(t, r[0], "alice")
	own, _, err := r[0].Open(t.Context(), Login{Client: "robot", NoRefresh: true})
	iamtest.Want(t, err, nil)
	known.Store(false)
	r[0].clock.Step(3 * time.Hour)
	r[0].Sweep(t.Context())
	if a.size() != 2 {
		t.Fatalf("%d sessions are left", a.size())
	}
	if _, _, _, err := r[0].Refresh(t.Context(), "kubesphere", refresh, admit); !errors.Is(err, iam.ErrUnavailable) {
		t.Errorf("refresh: %v", err)
	}
	if _, err := r[0].Authenticate(t.Context(), access(own)); !errors.Is(err, iam.ErrUnavailable) {
		t.Errorf("a client's own: %v", err)
	}
	known.Store(true)
	refreshed(t, r[0], refresh)
	if !r[0].alive(t, own) {
		t.Error("a client's own session is over")
	}
}

func TestSweepGoesOnWhenTheAPIIsBack(t *testing.T) {
	a, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	s, _ := login(t, r[0], "alice")
	a.fail(errors.New("down"))
	tellUsers(iamtest.User("alice", iamtest.WithState(iamapi.UserDisabled)), r...)
	r[0].Sweep(t.Context())
	if r[0].alive(t, s) || a.size() != 1 {
		t.Error("refused at once, and not yet deleted")
	}
	a.fail(nil)
	r[0].Sweep(t.Context())
	if a.size() != 0 {
		t.Error("not deleted when it could be")
	}
}

func TestFailingAPIIsUnavailableAndNotOver(t *testing.T) {
	a, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	s, refresh := login(t, r[0], "alice")
	a.fail(errors.New("down"))
	if !r[0].alive(t, s) {
		t.Error("a known session needs no API")
	}
	for name, err := range map[string]error{
		"open":    second(r[0].Open(t.Context(), Login{AuthnResult: iam.AuthnResult{User: r[0].users.ByName("alice")}})),
		"refresh": third(r[0].Refresh(t.Context(), "kubesphere", refresh, admit)),
		"end":     r[0].End(t.Context(), s.Name, "logout"),
	} {
		if !errors.Is(err, iam.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !r[0].alive(t, s) {
		t.Error("a logout that failed must be possible again")
	}
}

func second(_ *Session, _ string, err error) error             { return err }
func third(_ *Session, _ *iam.User, _ string, err error) error { return err }

func TestSessionEndsAtItsAbsoluteEnd(t *testing.T) {
	_, r := newReplicas(t, 1, func(o *Options) { o.Lifetime = func(string) Lifetime { return Lifetime{} } })
	tellUsers(iamtest.User("alice"), r...)
	s, _ := login(t, r[0], "alice")
	if want := iamtest.Start().Add(unlimitedAbsolute); !s.Expires.Equal(want) {
		t.Errorf("ends %v, want %v", s.Expires, want)
	}
	r[0].clock.Step(unlimitedAbsolute + 31*time.Second)
	if r[0].alive(t, s) {
		t.Error("good after its end")
	}
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	_, r := newReplicas(t, 1, func(o *Options) { o.Metrics = reg })
	tellUsers(iamtest.User("alice"), r...)
	login(t, r[0], "alice")
	if _, err := reg.Gather(); err != nil {
		t.Error(err)
	}
	if _, err := New(Options{Users: iam.NewUserIndex(), Metrics: reg}); err == nil {
		t.Error("registered twice")
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	_, r := newReplicas(b, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	s, _ := login(b, r[0], "alice")
	a := access(s)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r[0].Authenticate(ctx, a); err != nil {
			b.Fatal(err)
		}
	}
}

// A caller carries the session of the token, and not another one of the same user.
func TestCallersCarryTheirSession(t *testing.T) {
	_, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	for _, groups := range [][]string{nil, {"ops"}} {
		for range 2 {
			s, _, err := r[0].Open(t.Context(), Login{AuthnResult: iam.AuthnResult{User: r[0].users.ByName("alice"), Groups: groups}, Client: "harbor"})
			if err != nil {
				t.Fatal(err)
			}
			u, err := r[0].Authenticate(t.Context(), access(s))
			if err != nil {
				t.Fatal(err)
			}
			if in := Of(u); in == nil || in.Name != s.Name || u.GetName() != "alice" || len(u.GetExtra()) != 0 {
				t.Errorf("%v has come with %v", u.GetName(), in)
			}
			if again, _ := r[0].Authenticate(t.Context(), access(s)); again != u {
				t.Error("it is made again for each request")
			}
		}
	}
	if Of(r[0].users.ByName("alice").Info()) != nil {
		t.Error("a user has come with a session")
	}
}

// Users may be known no longer in full, and a user who was made again may only not be known here: no session ends by that. Without them being known,
// nobody is let in either.
func TestNoSessionEndsWhileUsersAreNotKnownInFull(t *testing.T) {
	unknown := errors.New("the watch is broken")
	_, r := newReplicas(t, 1, nil)
	r[0].users.CompleteBy(func() error { return unknown })
	r[0].users.OnChange(func(_, _ *iam.User) {})
	h := iamtest.Hash(t, iamtest.Password)
	for name, change := range map[string]func(){
		"Gone":      func() { r[0].users.Delete("", "ann") },
		"MadeAgain": func() { tellUsers(iamtest.User("ann", func(u *iamapi.User) { u.UID = "uid-of-another" }), r...) },
	} {
		t.Run(name, func(t *testing.T) {
			unknown = errors.New("the watch is broken")
			tellUsers(iamtest.User("ann", iamtest.WithPassword(h)), r...)
			ann, refresh := login(t, r[0], "ann")
			if !r[0].alive(t, ann) {
				t.Fatal("who is known is not let in")
			}
			change()
			for _, want := range []error{iam.ErrUnavailable, iam.ErrOver} {
				if _, err := r[0].Authenticate(t.Context(), access(ann)); !errors.Is(err, want) || apierrors.IsServiceUnavailable(err) == (unknown == nil) {
					t.Errorf("all is known: %v: got %v, want %v", unknown == nil, err, want)
				}
				_, _, _, err := r[0].Refresh(t.Context(), "kubesphere", refresh, admit)
				if errors.Is(err, iam.ErrRefresh) == errors.Is(err, iam.ErrUnavailable) || errors.Is(err, iam.ErrRefresh) != (unknown == nil) {
					t.Errorf("all is known: %v: a refresh: %v", unknown == nil, err)
				}
				unknown = nil
			}
		})
	}
}

// S12: until identity providers are read, one that is not known may be one that is disabled: its users are neither let in nor logged out.
func TestAProviderThatIsNotKnownYetIsNeitherDisabledNorEnabled(t *testing.T) {
	synced, enabled := false, false
	_, r := newReplicas(t, 1, func(o *Options) {
		o.Synced, o.Enabled = func() bool { return synced }, func(provider string) bool { return provider == "corp" && enabled }
	})
	tellUsers(iamtest.User("ann", iamtest.WithPassword(iamtest.Hash(t, iamtest.Password))), r...)
	s, _, err := r[0].Open(t.Context(), Login{AuthnResult: iam.AuthnResult{User: r[0].users.ByName("ann"), Provider: "corp"}, Client: "kubesphere"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r[0].Authenticate(t.Context(), access(s)); !errors.Is(err, iam.ErrUnavailable) {
		t.Errorf("before they are read: %v", err)
	}
	synced = true
	if _, err := r[0].Authenticate(t.Context(), access(s)); !errors.Is(err, iam.ErrOver) || errors.Is(err, iam.ErrUnavailable) {
		t.Errorf("of one that is gone: %v", err)
	}
	if enabled = true; !r[0].alive(t, s) {
		t.Error("of one that is enabled, it is refused")
	}
}
