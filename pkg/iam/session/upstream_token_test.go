package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/idp"
)

// offline is a browser with sessions that outlive its own session.
type offline struct {
	t       *testing.T
	api     *api
	all     []*replica
	up      *upstream
	browser *Session
}

// newOffline logs a user in; token is the provider's refresh token for that user, "" for none.
func newOffline(t *testing.T, token string) *offline {
	t.Helper()
	o := &offline{t: t, up: &upstream{groups: []string{"dev"}}}
	o.api, o.all = newReplicas(t, 2, func(s *Options) { s.Refresher = o.up.ask })
	tellUsers(iamtest.User("alice", iamtest.WithLink("corp", "cn=alice")), o.all...)
	var err error
	o.browser, _, err = o.all[0].Open(t.Context(), Login{AuthnResult: iam.AuthnResult{User: o.all[0].users.ByName("alice"), Provider: "corp", Subject: "cn=alice",
		Groups: []string{"dev"}, Hint: "canary-hint", Refresh: token}})
	iamtest.Want(t, err, nil)
	return o
}

// open opens a session in the browser, as the exchange of a code does, which does not know the subject.
func (o *offline) open(client string, scopes ...string) (*Session, string) {
	o.t.Helper()
	s, refresh, err := o.all[0].Open(o.t.Context(), Login{AuthnResult: iam.AuthnResult{User: o.all[0].users.ByName("alice"), Provider: "corp",
		Groups: []string{"dev"}},
		Client: client, Parent: o.browser.Name, Scopes: scopes})
	iamtest.Want(o.t, err, nil)
	return s, refresh
}

// leave ends the browser's session, and lets the provider's last answer expire.
func (o *offline) leave() {
	o.t.Helper()
	iamtest.Want(o.t, o.all[0].End(o.t.Context(), o.browser.Name, "logout"), nil)
	o.later()
}

func (o *offline) later() {
	for _, r := range o.all {
		r.clock.Step(askAgain + defaultGrace)
	}
}

func (o *offline) alive(s *Session) bool {
	o.t.Helper()
	return o.all[0].alive(o.t, s) && o.all[1].alive(o.t, s)
}

// S12: a user who was removed at the provider loses the sessions that outlive the browser's at their next refresh,
// whatever the provider is asked with.
func TestPersonIsAskedAboutWhenHisBrowsersSessionIsOver(t *testing.T) {
	for name, token := range map[string]string{"by a name, as of a directory": "", "by a refresh token": "canary-first"} {
		t.Run(name, func(t *testing.T) {
			o := newOffline(t, token)
			o.up.refresh = strings.ReplaceAll(token, "first", "second")
			s, refresh := o.open("kubectl", scopeOffline)
			o.leave()
			if _, _, err := o.all[1].Find(t.Context(), o.browser.Name); !errors.Is(err, iam.ErrOver) {
				t.Errorf("the browser's session: %v", err)
			}
			o.up.groups = []string{"ops"}
			refresh = refreshedOf(t, o.all[1], "kubectl", refresh)
			if o.up.got != "alice/cn=alice/"+token {
				t.Errorf("asked about %s", o.up.got)
			}
			if got := strings.Join(groupsOf(t, o.all[0], s), " "); got != "system:authenticated ops" {
				t.Errorf("groups %s", got)
			}

			o.later()
			o.up.err = idp.ErrUnavailable
			refresh = refreshedOf(t, o.all[0], "kubectl", refresh)
			if o.up.got != "alice/cn=alice/"+o.up.refresh {
				t.Errorf("asked about %s", o.up.got)
			}
			if got := strings.Join(groupsOf(t, o.all[1], s), " "); got != "system:authenticated ops" {
				t.Errorf("groups after an outage: %s", got)
			}

			o.later()
			o.up.err = fmt.Errorf("ask: %w", idp.ErrGone)
			refused(t, o.all[1], "kubectl", refresh)
			if o.all[0].alive(t, s) || o.all[1].alive(t, s) || o.api.size() != 0 {
				t.Errorf("alive, or %d objects are left", o.api.size())
			}
		})
	}
}

// A refresh token of the provider can be used once: the sessions of one browser share it, even if they refresh in parallel.
func TestSessionsThatOutliveABrowsersShareItsToken(t *testing.T) {
	o := newOffline(t, "canary-first")
	o.up.refresh = "canary-second"
	one, first := o.open("kubectl", scopeOffline)
	other, second := o.open("argo", scopeOffline)
	o.leave()
	asked := o.up.asked.Load()
	refreshedOf(t, o.all[0], "kubectl", first)
	o.up.groups = []string{"not asked for"}
	second = refreshedOf(t, o.all[1], "argo", second)
	if n := o.up.asked.Load() - asked; n != 1 {
		t.Errorf("asked %d times", n)
	}
	o.later()
	refreshedOf(t, o.all[1], "argo", second)
	if o.up.got != "alice/cn=alice/canary-second" || !o.alive(one) || !o.alive(other) {
		t.Errorf("asked about %s", o.up.got)
	}
	raw, err := json.Marshal(o.api.objects[o.browser.Name])
	iamtest.Want(t, err, nil)
	if left := o.api.objects[o.browser.Name]; strings.Contains(string(raw), "canary") || left.Phase != v1alpha1.PhaseEnded || left.Upstream.Hint != "" ||
		left.Spec.ExpiresAt.Before(&o.api.objects[one.Name].Spec.ExpiresAt) {
		t.Errorf("kept %s", raw)
	}
}

// S12: with a provider that can't be asked, no session outlives that of its browser.
func TestSessionThatNobodyCanBeAskedAboutEndsWithItsBrowsers(t *testing.T) {
	o := newOffline(t, "")
	o.up.err = fmt.Errorf("ask: %w", idp.ErrUnaskable)
	s, refresh := o.open("kubectl", scopeOffline)
	refresh = refreshedOf(t, o.all[0], "kubectl", refresh)
	o.later()
	refresh = refreshedOf(t, o.all[1], "kubectl", refresh)
	if got := strings.Join(groupsOf(t, o.all[0], s), " "); got != "system:authenticated dev" {
		t.Errorf("groups %s", got)
	}
	o.leave()
	refused(t, o.all[1], "kubectl", refresh)
	if o.all[0].alive(t, s) || o.api.size() != 0 {
		t.Errorf("alive, or %d objects are left", o.api.size())
	}
}

func TestWhatIsKeptGoesWithWhatItIsKeptFor(t *testing.T) {
	for name, c := range map[string]struct {
		scopes []string
		end    func(o *offline, s *Session)
		kept   bool
	}{
		"it is used": {[]string{scopeOffline}, func(*offline, *Session) {}, true},
		"logged out once more": {[]string{scopeOffline}, func(o *offline, _ *Session) {
			iamtest.Want(o.t, o.all[1].End(o.t.Context(), o.browser.Name, "logout"), nil)
		}, true},
		"it is revoked": {[]string{scopeOffline}, func(o *offline, s *Session) { iamtest.Want(o.t, o.all[1].End(o.t.Context(), s.Name, "revoked"), nil) }, false},
		"all are ended": {[]string{scopeOffline}, func(o *offline, s *Session) {
			iamtest.Want(o.t, o.all[1].EndAll(o.t.Context(), s.UserUID, "", "all"), nil)
		}, false},
		"it has expired":               {[]string{scopeOffline}, func(o *offline, _ *Session) { o.all[0].clock.Step(DefaultAbsolute + time.Hour) }, false},
		"nothing outlives the browser": {nil, func(*offline, *Session) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffline(t, "canary-first")
			s, _ := o.open("kubectl", c.scopes...)
			o.leave()
			c.end(o, s)
			o.all[0].clock.Step(orphanAge)
			o.all[0].Sweep(t.Context())
			o.all[0].Sweep(t.Context())
			if left := o.api.objects[o.browser.Name] != nil; left != c.kept {
				t.Errorf("kept: %v", left)
			}
			if _, _, err := restart(t, o.api, 1).Find(t.Context(), o.browser.Name); !errors.Is(err, iam.ErrOver) {
				t.Errorf("the browser's session: %v", err)
			}
		})
	}
	t.Run("all at once", func(t *testing.T) {
		o := newOffline(t, "canary-first")
		s, _ := o.open("kubectl", scopeOffline)
		iamtest.Want(t, o.all[0].EndAll(t.Context(), s.UserUID, "", "all"), nil)
		if o.api.size() != 0 {
			t.Errorf("%d objects are left", o.api.size())
		}
	})
}

// A replica that starts recognizes the reduced object of an ended session, and asks with its token.
func TestWhatIsKeptIsKnownAfterARestart(t *testing.T) {
	o := newOffline(t, "canary-first")
	s, refresh := o.open("kubectl", scopeOffline)
	o.leave()
	now := o.all[1].clock.Now()
	o.all[1] = restart(t, o.api, 1)
	o.all[1].clock.Step(now.Sub(iamtest.Start()))
	tellUsers(iamtest.User("alice", iamtest.WithLink("corp", "cn=alice")), o.all[1])
	if _, _, err := o.all[1].Find(t.Context(), o.browser.Name); !errors.Is(err, iam.ErrOver) {
		t.Errorf("the browser's session: %v", err)
	}
	refreshedOf(t, o.all[1], "kubectl", refresh)
	if o.up.got != "alice/cn=alice/canary-first" || !o.alive(s) {
		t.Errorf("asked about %s", o.up.got)
	}
}

// A replica refuses the browser's session before the object is changed: until then there is no token to ask with, and no session is ended.
func TestSessionGoesOnWhileItsBrowsersIsBeingEnded(t *testing.T) {
	o := newOffline(t, "canary-first")
	s, refresh := o.open("kubectl", scopeOffline)
	r := o.all[0]
	r.mu.Lock()
	r.scheduleEnd(o.browser.Name, "too many")
	r.mu.Unlock()
	o.up.err = fmt.Errorf("ask: %w", idp.ErrUnaskable) // the provider's answer to a question without a token
	refresh = refreshedOf(t, r, "kubectl", refresh)
	r.Sweep(t.Context())
	o.later()
	o.up.err = nil
	refreshedOf(t, r, "kubectl", refresh)
	if o.up.got != "alice/cn=alice/canary-first" || !o.alive(s) {
		t.Errorf("asked about %s", o.up.got)
	}
}
