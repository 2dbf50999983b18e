package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/store"
)

// upstream is an identity provider that is asked about users again.
type upstream struct {
	groups        []string
	refresh, hint string
	err           error
	asked         atomic.Int64
	got           string
}

func (u *upstream) ask(_ context.Context, s *Session, subject, refresh string) ([]string, string, string, error) {
	u.asked.Add(1)
	u.got = s.User + "/" + subject + "/" + refresh
	return u.groups, u.refresh, u.hint, u.err
}

func federated(t testing.TB, r *replica, groups ...string) (*Session, string) {
	t.Helper()
	s, refresh, err := r.Open(t.Context(), Login{Client: "kubesphere", AuthnResult: iam.AuthnResult{User: r.users.ByName("alice"), Provider: "ldap",
		Subject: "cn=alice",
		Groups:  groups, Hint: "canary-hint", Refresh: "canary-refresh", Methods: []string{iam.MethodFederated}}})
	if err != nil {
		t.Fatal(err)
	}
	return s, refresh
}

func groupsOf(t testing.TB, r *replica, s *Session) []string {
	t.Helper()
	u, err := r.Authenticate(t.Context(), access(s))
	if err != nil {
		t.Fatal(err)
	}
	return u.GetGroups()
}

func TestGroupsOfTheProviderCountForItsSessionOnly(t *testing.T) {
	_, r := newReplicas(t, 2, nil)
	tellUsers(iamtest.User("alice", iamtest.WithLink("ldap", "cn=alice"), iamtest.WithGroups("own", "both")), r...)
	plain, _ := login(t, r[0], "alice")
	s, _ := federated(t, r[0], "dev", "both", "system:masters", "kapis:global:admin", "", "dev")
	for i := range r {
		if got := strings.Join(groupsOf(t, r[i], s), " "); got != "own both system:authenticated dev" {
			t.Errorf("replica %d: %s", i, got)
		}
		if got := strings.Join(groupsOf(t, r[i], plain), " "); got != "own both system:authenticated" {
			t.Errorf("another session: %s", got)
		}
	}
	tellUsers(iamtest.User("alice", iamtest.WithLink("ldap", "cn=alice"), iamtest.WithGroups("new")), r...)
	if got := strings.Join(groupsOf(t, r[1], s), " "); got != "new system:authenticated dev both" {
		t.Errorf("after the user's own groups have changed: %s", got)
	}
}

// S12: a group that is removed upstream is gone at the next refresh.
func TestGroupsAreRefreshedAtARefresh(t *testing.T) {
	up := &upstream{groups: []string{"ops"}, refresh: "canary-second"}
	a, r := newReplicas(t, 2, func(o *Options) { o.Refresher = up.ask })
	tellUsers(iamtest.User("alice", iamtest.WithLink("ldap", "cn=alice")), r...)
	s, first := federated(t, r[0], "dev")
	next := refreshed(t, r[1], first)
	if up.got != "alice/cn=alice/canary-refresh" {
		t.Errorf("asked about %s", up.got)
	}
	for i := range r {
		if got := strings.Join(groupsOf(t, r[i], s), " "); got != "system:authenticated ops" {
			t.Errorf("replica %d: %s", i, got)
		}
	}
	refreshed(t, r[0], first)
	refreshed(t, r[0], next)
	if up.asked.Load() != 1 {
		t.Error("asked in the grace")
	}
	pastGrace(r...)
	writes := a.count("update")
	refreshed(t, r[0], next)
	if up.got != "alice/cn=alice/canary-second" {
		t.Errorf("the provider's new refresh token was not kept: %s", up.got)
	}
	if a.count("update") != writes+1 {
		t.Error("what is as before is written again")
	}
	if _, hint, err := r[1].Upstream(t.Context(), s.Name); err != nil || hint != "canary-hint" {
		t.Errorf("hint %q, %v", hint, err)
	}
}

func TestParallelRefreshesAskTheProviderOnce(t *testing.T) {
	up := &upstream{groups: []string{"dev"}}
	_, r := newReplicas(t, 3, func(o *Options) { o.Refresher = up.ask })
	tellUsers(iamtest.User("alice", iamtest.WithLink("ldap", "cn=alice")), r...)
	_, first := federated(t, r[0], "dev")
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if _, _, _, err := r[i%3].Refresh(t.Context(), "kubesphere", first, admit); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := up.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestWhatTheProviderSaysDecides(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		lives bool
	}{
		"it is down":             {idp.ErrUnavailable, true},
		"it answers nonsense":    {errors.New("nonsense"), true},
		"it knows him no more":   {fmt.Errorf("ask: %w", idp.ErrGone), false},
		"it says the same again": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			up := &upstream{err: test.err, groups: []string{"dev"}}
			_, r := newReplicas(t, 2, func(o *Options) { o.Refresher = up.ask })
			tellUsers(iamtest.User("alice", iamtest.WithLink("ldap", "cn=alice")), r...)
			s, first := federated(t, r[0], "dev")
			_, _, _, err := r[0].Refresh(t.Context(), "kubesphere", first, admit)
			if (err == nil) != test.lives || err != nil && !errors.Is(err, iam.ErrRefresh) {
				t.Errorf("got %v", err)
			}
			if r[1].alive(t, s) != test.lives {
				t.Error("the session's life is wrong")
			}
			if test.lives && !slices.Contains(groupsOf(t, r[1], s), "dev") {
				t.Error("the groups are lost")
			}
		})
	}
}

// A provider that rotates refresh tokens and fails after that is asked with the new one the next time.
func TestATokenThatCameBeforeTheProvidersFaultIsAskedWithNext(t *testing.T) {
	up := &upstream{err: idp.ErrUnavailable, refresh: "canary-next"}
	_, r := newReplicas(t, 2, func(o *Options) { o.Refresher = up.ask })
	tellUsers(iamtest.User("alice", iamtest.WithLink("ldap", "cn=alice")), r...)
	s, first := federated(t, r[0], "dev", "ops")
	next := refreshed(t, r[1], first)
	for i := range r {
		if got := strings.Join(groupsOf(t, r[i], s), " "); got != "system:authenticated dev ops" {
			t.Errorf("replica %d after the fault: %s", i, got)
		}
	}
	up.err, up.refresh, up.groups = nil, "", []string{"ops"}
	r[0].clock.Step(time.Minute)
	r[1].clock.Step(time.Minute)
	refreshed(t, r[0], next)
	if up.got != "alice/cn=alice/canary-next" {
		t.Errorf("asked again with %s", up.got)
	}
	if got := strings.Join(groupsOf(t, r[1], s), " "); got != "system:authenticated ops" {
		t.Errorf("after the answer: %s", got)
	}
}

// A session that a browser opened has its provider asked with the token of the browser's session, also after a fault.
func TestATokenThatCameBeforeTheProvidersFaultIsTheBrowsers(t *testing.T) {
	up := &upstream{err: idp.ErrUnavailable, refresh: "canary-next"}
	a, r := newReplicas(t, 1, func(o *Options) { o.Refresher = up.ask })
	tellUsers(iamtest.User("alice", iamtest.WithLink("ldap", "cn=alice")), r...)
	result := iam.AuthnResult{User: r[0].users.ByName("alice"), Provider: "ldap", Subject: "cn=alice", Groups: []string{"dev"}, Refresh: "canary-refresh"}
	browser, _, err := r[0].Open(t.Context(), Login{AuthnResult: result})
	iamtest.Want(t, err, nil)
	result.Refresh = ""
	s, first, err := r[0].Open(t.Context(), Login{AuthnResult: result, Client: "kubesphere", Parent: browser.Name})
	iamtest.Want(t, err, nil)
	refreshed(t, r[0], first)
	if got := r[0].unseal(browser.Name, a.objects[browser.Name].Upstream.Refresh); got != "canary-next" {
		t.Errorf("the browser's session has %q", got)
	}
	if got := groupsOf(t, r[0], s); !slices.Contains(got, "dev") {
		t.Errorf("the groups are lost: %v", got)
	}
}

// A caller who leaves must not lose the provider's answer, which may be usable only once.
func TestProvidersAnswerIsKeptWhenTheCallerHasLeft(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	up := &upstream{groups: []string{"ops"}}
	a, r := newReplicas(t, 1, func(o *Options) {
		o.Refresher = func(c context.Context, s *Session, subject, refresh string) ([]string, string, string, error) {
			leave()
			if c.Err() != nil {
				t.Error("the question ends with the caller")
			}
			return up.ask(c, s, subject, refresh)
		}
	})
	tellUsers(iamtest.User("alice", iamtest.WithLink("ldap", "cn=alice")), r...)
	s, first := federated(t, r[0], "dev")
	_, _, _, _ = r[0].Refresh(ctx, "kubesphere", first, admit)
	if got := a.objects[s.Name].Groups; len(got) != 1 || got[0] != "ops" {
		t.Errorf("stored %v", got)
	}
}

// S57: the upstream token can't be read in the object, nor moved to another one.
func TestProvidersSecretsAreSealed(t *testing.T) {
	a, r := newReplicas(t, 1, nil)
	tellUsers(iamtest.User("alice", iamtest.WithLink("ldap", "cn=alice")), r...)
	s, refresh := federated(t, r[0], "dev")
	raw, _ := json.Marshal(a.objects[s.Name])
	if strings.Contains(string(raw), "canary") || strings.Contains(string(raw), refresh) {
		t.Errorf("readable: %s", raw)
	}
	if a.objects[s.Name].Upstream.Hint == a.objects[s.Name].Upstream.Refresh || a.objects[s.Name].Upstream.Refresh == "" {
		t.Error("not sealed")
	}
	if got := r[0].unseal("other", a.objects[s.Name].Upstream.Hint); got != "" {
		t.Errorf("opened for another session: %s", got)
	}
}

// S12: a session of a provider that is disabled is refused at once, and deleted later; others go on.
func TestSessionsOfADisabledProviderAreRefused(t *testing.T) {
	var off atomic.Bool
	a, r := newReplicas(t, 2, func(o *Options) {
		o.Enabled = func(name string) bool { return name != "ldap" || !off.Load() }
	})
	tellUsers(iamtest.User("alice", iamtest.WithLink("ldap", "cn=alice")), r...)
	local, _ := login(t, r[0], "alice")
	s, refresh := federated(t, r[0], "dev")
	off.Store(true)
	for i := range r {
		if r[i].alive(t, s) || !r[i].alive(t, local) {
			t.Errorf("replica %d", i)
		}
	}
	refused(t, r[0], "kubesphere", refresh)
	r[0].clock.Step(orphanAge)
	r[0].Sweep(t.Context())
	if a.objects[s.Name] != nil || a.objects[local.Name] == nil {
		t.Error("swept the wrong ones")
	}
}

// S12: the provider is asked about sessions opened in a browser with the token of the browser's session, and by one of them.
func TestGroupsOfSessionsInABrowserAreRefreshed(t *testing.T) {
	up := &upstream{groups: []string{"ops"}, refresh: "canary-second"}
	_, r := newReplicas(t, 2, func(o *Options) { o.Refresher = up.ask })
	tellUsers(iamtest.User("alice", iamtest.WithLink("ldap", "cn=alice")), r...)
	open := func(l Login) (*Session, string) {
		t.Helper()
		l.User, l.Provider, l.Groups = r[0].users.ByName("alice"), "ldap", []string{"dev"}
		s, refresh, err := r[0].Open(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		return s, refresh
	}
	browser, _ := open(Login{AuthnResult: iam.AuthnResult{Subject: "cn=alice", Refresh: "canary-refresh"}})
	harbor, first := open(Login{Client: "harbor", Parent: browser.Name})
	argo, second := open(Login{Client: "argo", Parent: browser.Name, Scopes: []string{"offline_access"}})
	want := func(groups string, list ...*Session) {
		t.Helper()
		for _, s := range list {
			if got := strings.Join(groupsOf(t, r[1], s), " "); got != groups {
				t.Errorf("%s: %s", s.Client, got)
			}
		}
	}
	refreshedOf(t, r[1], "harbor", first)
	second = refreshedOf(t, r[0], "argo", second)
	if up.got != "alice/cn=alice/canary-refresh" || up.asked.Load() != 1 {
		t.Errorf("asked %d times, at last about %s", up.asked.Load(), up.got)
	}
	want("system:authenticated ops", harbor, argo)

	up.groups = []string{"new"}
	for _, one := range r {
		one.clock.Step(askAgain + defaultGrace)
	}
	second = refreshedOf(t, r[1], "argo", second)
	if up.got != "alice/cn=alice/canary-second" {
		t.Errorf("asked about %s", up.got)
	}
	want("system:authenticated new", argo)

	if err := r[0].End(t.Context(), browser.Name, "logout"); err != nil {
		t.Fatal(err)
	}
	pastGrace(r...)
	refreshedOf(t, r[0], "argo", second)
	want("system:authenticated new", argo)

	browser, _ = open(Login{AuthnResult: iam.AuthnResult{Subject: "cn=alice"}})
	argo, second = open(Login{Client: "argo", Parent: browser.Name, Scopes: []string{"offline_access"}})
	up.err = idp.ErrGone
	if _, _, _, err := r[0].Refresh(t.Context(), "argo", second, admit); !errors.Is(err, iam.ErrRefresh) {
		t.Error(err)
	}
	if _, err := r[0].Authenticate(t.Context(), access(argo)); !errors.Is(err, iam.ErrOver) {
		t.Error(err)
	}
}

// S12: a user who logs in again in the same browser has the groups that the provider reports now, and the sessions in it get them too.
func TestALoginInTheSameBrowserRenewsTheGroups(t *testing.T) {
	up := &upstream{err: idp.ErrUnavailable}
	_, r := newReplicas(t, 2, func(o *Options) { o.Refresher = up.ask })
	tellUsers(iamtest.User("alice", iamtest.WithLink("ldap", "cn=alice")), r...)
	alice := r[0].users.ByName("alice")
	by := func(subject string, groups ...string) *iam.AuthnResult {
		return &iam.AuthnResult{User: alice, Provider: "ldap", Subject: subject, Groups: groups, Hint: "canary-" + strings.Join(groups, ""),
			Methods: []string{iam.MethodFederated}}
	}
	browser, _, err := r[0].Open(t.Context(), Login{AuthnResult: *by("cn=alice", "dev")})
	iamtest.Want(t, err, nil)
	child, refresh, err := r[0].Open(t.Context(), Login{AuthnResult: *by("cn=alice", "dev"), Client: "kubesphere", Parent: browser.Name})
	iamtest.Want(t, err, nil)

	again, err := r[1].Renew(t.Context(), browser.Name, by("cn=alice", "ops", "system:masters"))
	iamtest.Want(t, err, nil)
	if again.Name != browser.Name || !slices.Equal(again.Groups, []string{"ops"}) {
		t.Errorf("%+v", again)
	}
	if _, hint, err := r[0].Upstream(t.Context(), browser.Name); err != nil || hint != "canary-opssystem:masters" {
		t.Errorf("hint %q, %v", hint, err)
	}
	refreshed(t, r[0], refresh)
	if got := strings.Join(groupsOf(t, r[0], child), " "); got != "system:authenticated ops" || up.asked.Load() != 0 {
		t.Errorf("the session in the browser: %s; the provider was asked %d times", got, up.asked.Load())
	}
	for name, c := range map[string]struct {
		session string
		proof   *iam.AuthnResult
	}{
		"by another name there": {browser.Name, by("cn=mallory", "admins")},
		"a client's session":    {child.Name, by("cn=alice", "admins")},
		"another provider's":    {browser.Name, &iam.AuthnResult{User: alice, Provider: "github", Subject: "cn=alice"}},
		"nobody's":              {newName(iamtest.Start()), by("cn=alice")},
	} {
		if _, err := r[0].Renew(t.Context(), c.session, c.proof); !errors.Is(err, iam.ErrOver) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// S37: an identity that is taken from a User opens nothing of that User any more, and ends no session of another identity.
func TestASessionEndsWithTheLinkOfItsIdentity(t *testing.T) {
	var unknown error
	a, r := newReplicas(t, 2, nil)
	for _, one := range r {
		one.users.CompleteBy(func() error { return unknown })
	}
	corp, ldap := iamtest.WithLink("corp", "7"), iamtest.WithLink("ldap", "cn=alice")
	tellUsers(iamtest.User("alice", corp, ldap), r...)
	s, refresh := federated(t, r[0])
	var others []*Session
	for _, l := range []iam.AuthnResult{{}, {Provider: "corp", Subject: "7"}, {Provider: "ldap"}} {
		l.User = r[0].users.ByName("alice")
		other, _, err := r[0].Open(t.Context(), Login{Client: "kubesphere", AuthnResult: l})
		iamtest.Want(t, err, nil)
		others = append(others, other)
	}
	for name, u := range map[string]*store.Object{"as release 3 wrote it": iamtest.User("alice", corp, func(u *iamapi.User) {
		u.Labels = map[string]string{iamapi.LabelIdentifyProvider: "ldap", iamapi.LabelOriginUID: "cn=alice"}
	}), "as before": iamtest.User("alice", corp, ldap)} {
		if tellUsers(u, r...); !r[0].alive(t, s) || !r[1].alive(t, s) {
			t.Errorf("linked %s, it is over", name)
		}
	}
	unknown = errors.New("the watch is behind")
	tellUsers(iamtest.User("alice", corp, iamtest.WithLink("ldap", "cn=eve")), r...)
	if _, err := r[1].Authenticate(t.Context(), access(s)); !errors.Is(err, iam.ErrUnavailable) {
		t.Errorf("where the link may only not be known: %v", err)
	}
	unknown = nil
	for i := range r {
		if _, err := r[i].Authenticate(t.Context(), access(s)); !errors.Is(err, iam.ErrOver) || errors.Is(err, iam.ErrUnavailable) {
			t.Errorf("replica %d: %v", i, err)
		}
	}
	refused(t, r[1], "kubesphere", refresh)
	r[0].clock.Step(orphanAge)
	r[0].Sweep(t.Context())
	if a.size() != len(others) {
		t.Errorf("%d sessions are left", a.size())
	}
	for _, other := range others {
		if !r[0].alive(t, other) || !r[1].alive(t, other) {
			t.Errorf("the session of %q is over, too", other.Provider)
		}
	}
}
