package session

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/token"
)

func someone() *iam.Registration {
	return &iam.Registration{Provider: "github", Subject: "4711", Username: "Alice_X", Email: "a@example.com", DisplayName: "Alice"}
}

func register(t testing.TB, r *replica) (*Session, string) {
	t.Helper()
	s, refresh, err := r.Open(t.Context(), Login{Client: "kubesphere", AuthnResult: iam.AuthnResult{Registration: someone(), Groups: []string{"dev"},
		Provider: "github", Subject: "4711"}})
	if err != nil {
		t.Fatal(err)
	}
	return s, refresh
}

// A user who has to register is no User yet, and has one group only.
func TestRegistrationActsAsNobody(t *testing.T) {
	_, r := newReplicas(t, 2, nil)
	s, refresh := register(t, r[0])
	for i := range r {
		u, err := r[i].Authenticate(t.Context(), access(s))
		if err != nil {
			t.Fatal(err)
		}
		if u.GetName() != iamapi.UserPreRegistration || strings.Join(u.GetGroups(), " ") != iamapi.GroupPreRegistration {
			t.Errorf("%s in %v", u.GetName(), u.GetGroups())
		}
		if e := u.GetExtra(); e["idp"][0] != "github" || e["uid"][0] != "4711" || e["username"][0] != "Alice_X" || e["email"][0] != "a@example.com" {
			t.Errorf("extra %v", e)
		}
	}
	if _, _, _, err := r[0].Refresh(t.Context(), "kubesphere", refresh, admit); !errors.Is(err, iam.ErrRefresh) || !r[1].alive(t, s) {
		t.Errorf("a refresh before he has registered: %v", err)
	}
}

// The console registers, and then refreshes to get tokens of the User.
func TestRefreshAfterTheRegistrationIsTheUsers(t *testing.T) {
	var linked atomic.Pointer[iam.User]
	a, r := newReplicas(t, 2, func(o *Options) {
		o.Linked = func(provider, subject string) (*iam.User, error) {
			if provider != "github" || subject != "4711" {
				t.Errorf("asked for %s/%s", provider, subject)
			}
			return linked.Load(), nil
		}
	})
	s, refresh := register(t, r[0])
	before := access(s)
	tellUsers(iamtest.User("alice", iamtest.WithLink("github", "4711")), r...)
	linked.Store(r[1].users.ByName("alice"))
	now, u, next, err := r[1].Refresh(t.Context(), "kubesphere", refresh, admit)
	if err != nil || u.Name != "alice" || now.User != "alice" || now.UserUID != "uid-alice" || now.Registration != nil {
		t.Fatal(err, now)
	}
	for i := range r {
		if !r[i].alive(t, now) || !slices.Contains(groupsOf(t, r[i], now), "dev") {
			t.Errorf("replica %d refuses the user, or knows no groups", i)
		}
		if _, err := r[i].Authenticate(t.Context(), before); !errors.Is(err, iam.ErrOver) {
			t.Errorf("replica %d takes the token of before: %v", i, err)
		}
		if list := r[i].Of("uid-alice"); len(list) != 1 {
			t.Errorf("replica %d lists %d", i, len(list))
		}
	}
	if a.objects[s.Name].Spec.Registration != nil {
		t.Error("still a registration")
	}
	if got := refreshed(t, r[0], refresh); got != next {
		t.Error("in the grace the client gets something else")
	}
	tellUsers(iamtest.User("alice", iamtest.WithLink("github", "4711"), iamtest.WithState(iamapi.UserDisabled)), r...)
	if r[0].alive(t, now) {
		t.Error("disabled, and good")
	}
}

func TestRegistrationOfAUserWhoMayNotLogInStaysOne(t *testing.T) {
	a, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice", iamtest.WithState(iamapi.UserDisabled)), r...)
	r[0].Linked = func(_, _ string) (*iam.User, error) { return r[0].users.ByName("alice"), nil }
	_, refresh := register(t, r[0])
	refused(t, r[0], "kubesphere", refresh)
	if a.count("update") != 0 {
		t.Error("written")
	}
}

// T9700-15, T6749-19: a client acts for itself under a name that no user has, without a refresh token, and shares one session.
func TestClientActsForItself(t *testing.T) {
	secret := atomic.Pointer[string]{}
	set := func(s string) { secret.Store(&s) }
	set("fingerprint")
	a, r := newReplicas(t, 2, func(o *Options) {
		o.ClientCredential = func(client string) string {
			if client == "admin" {
				return *secret.Load()
			}
			return ""
		}
	})
	tellUsers(iamtest.User("admin"), r...)
	l := Login{Client: "admin", NoRefresh: true, Scopes: []string{"groups"}}
	s, refresh, err := r[0].Open(t.Context(), l)
	if err != nil || refresh != "" {
		t.Fatal(err, "or a refresh token")
	}
	u, err := r[1].Authenticate(t.Context(), access(s))
	if err != nil || u.GetName() != "client:admin" || u.GetUID() != "client:admin" || strings.Join(u.GetGroups(), " ") != "system:authenticated" {
		t.Fatal(u, err)
	}
	if _, err := r[1].Authenticate(t.Context(), &token.Access{Subject: "uid-admin", Username: "admin", Client: "admin", Session: s.Name}); !errors.Is(err,
		iam.ErrOver) {
		t.Errorf("taken for the user of that name: %v", err)
	}
	again, _, err := r[1].Open(t.Context(), l)
	if err != nil || again.Name != s.Name {
		t.Errorf("a second session for the same: %v", err)
	}
	r[0].clock.Step(2*time.Hour + time.Second)
	if again, _, err = r[0].Open(t.Context(), l); err != nil || again.Name == s.Name {
		t.Errorf("a session that does not last for another token: %v", err)
	}
	l.Scopes = nil
	if again, _, err = r[1].Open(t.Context(), l); err != nil || again.Name == s.Name {
		t.Errorf("other scopes, the same session: %v", err)
	}
	set("another")
	if _, err := r[1].Authenticate(t.Context(), access(s)); !errors.Is(err, iam.ErrOver) {
		t.Errorf("after another secret: %v", err)
	}
	set("")
	if _, _, err := r[0].Open(t.Context(), l); err == nil {
		t.Error("opened for a client that is gone")
	}
	r[0].Sweep(t.Context())
	r[0].clock.Step(orphanAge)
	r[0].Sweep(t.Context())
	if a.size() != 0 {
		t.Errorf("%d left behind", a.size())
	}
}

// The key that signs a token is kept for as long as the longest session; no token may need it for longer.
func TestClientsTokenDoesNotOutliveItsKey(t *testing.T) {
	for name, c := range map[string]struct{ maxAge, least time.Duration }{
		"short":    {2 * time.Hour, 2 * time.Hour},
		"half":     {15 * 24 * time.Hour, 15 * 24 * time.Hour},
		"long":     {20 * 24 * time.Hour, 15 * 24 * time.Hour},
		"too long": {100 * 24 * time.Hour, 15 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			life := Lifetime{MaxAge: c.maxAge, Inactivity: time.Hour}
			_, r := newReplicas(t, 1, func(o *Options) {
				o.ClientCredential = func(string) string { return "fingerprint" }
				o.Lifetime = func(string) Lifetime { return life }
			})
			tellUsers(iamtest.User("alice"), r...)
			own := Login{Client: "robot", NoRefresh: true}
			names := map[string]bool{}
			for range 3 {
				s, _, err := r[0].Open(t.Context(), own)
				iamtest.Want(t, err, nil)
				names[s.Name] = true
				now := r[0].clock.Now()
				if end := life.AccessExpiry(s, now); end.Sub(now) > life.Longest() || end.Sub(now) < c.least {
					t.Errorf("a token of %v", end.Sub(now))
				}
			}
			if len(names) != 1 {
				t.Errorf("%d sessions for the same", len(names))
			}
			s, _, err := r[0].Open(t.Context(), Login{AuthnResult: iam.AuthnResult{User: r[0].users.ByName("alice")}, Client: "robot", NoRefresh: true})
			iamtest.Want(t, err, nil)
			if lives := s.Expires.Sub(s.Created); lives > life.Longest() {
				t.Errorf("a person's session of %v", lives)
			}
		})
	}
}

func TestUserWhoIsNamedLikeTheSystemIsNoUser(t *testing.T) {
	_, r := newReplicas(t, 1, nil)
	for _, name := range []string{iamapi.UserPreRegistration, "kapis:x"} {
		r[0].users.Set(iamtest.User(name))
		if r[0].users.ByName(name) != nil {
			t.Errorf("%s is a user", name)
		}
	}
}

func TestLongTextsAreCut(t *testing.T) {
	_, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	s, _, err := r[0].Open(t.Context(), Login{AuthnResult: iam.AuthnResult{User: r[0].users.ByName("alice")}, Client: "c",
		Origin: iam.Origin{UserAgent: strings.Repeat("ü", 200) + "\xff", Source: strings.Repeat("1", 300)}})
	if err != nil || s.UserAgent != strings.Repeat("ü", 128) || len(s.Source) != 256 {
		t.Errorf("%v %d %d", err, len(s.UserAgent), len(s.Source))
	}
}

// An object that was written before there were groups, phases and parents.
func TestOlderSessionIsAsGoodAsBefore(t *testing.T) {
	_, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	s := &Session{Name: newName(iamtest.Start()), User: "alice", UserUID: "uid-alice", Client: "kubesphere"}
	rec, err := parseSession(sessionJSON(t, s))
	if err != nil || rec.sequence != iamtest.Start().UnixMilli() || !rec.Authenticated.Equal(iamtest.Start()) {
		t.Fatal(err, rec)
	}
	r[0].mu.Lock()
	r[0].put(rec)
	r[0].mu.Unlock()
	if !r[0].alive(t, s) {
		t.Error("refused")
	}
}

// While second factors are not known in full, nobody is told that the User of a registration has one.
func TestARegistrationIsNotOverWhileItsUserIsNotKnownInFull(t *testing.T) {
	a, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice"), r...)
	_, refresh := register(t, r[0])
	r[0].Linked = func(_, _ string) (*iam.User, error) { return nil, iam.ErrUnavailable }
	_, _, _, err := r[0].Refresh(t.Context(), "kubesphere", refresh, admit)
	if !errors.Is(err, iam.ErrUnavailable) || errors.Is(err, iam.ErrRefresh) || a.count("update") != 0 {
		t.Errorf("got %v and %d writes", err, a.count("update"))
	}
}

// While users are not known in full, nobody is told that the User of a registration does not exist.
func TestARegistrationIsNotOverWhileUsersAreNotKnownInFull(t *testing.T) {
	unknown := errors.New("not complete yet")
	_, r := newReplicas(t, 1, nil)
	r[0].users.CompleteBy(func() error { return unknown })
	_, refresh := register(t, r[0])
	for _, want := range []error{iam.ErrUnavailable, iam.ErrRefresh} {
		if _, _, _, err := r[0].Refresh(t.Context(), "kubesphere", refresh, admit); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		unknown = nil
	}
}
