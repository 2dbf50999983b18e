package oauth

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
)

func TestPasskeyLogsIn(t *testing.T) {
	w := newPageTest(t)
	p := w.visitor(t)
	if policy := p.page.header.Get("Content-Security-Policy"); !strings.Contains(policy, "script-src 'self'") {
		t.Error(policy)
	}
	p.answer("passkey", "response", "forged").says(t, http.StatusBadRequest, "The passkey was not accepted")
	p.answer("passkey", "response", "touched").goes(t, "account")
	if p.loggedIn() != "alice" {
		t.Error("not logged in")
	}
}

func TestSecondFactorComesBeforeTheSession(t *testing.T) {
	w := newPageTest(t)
	w.gate.pending, w.factors.has = true, factor.Enrolled{TOTP: true, Passkeys: []factor.Passkey{{ID: "1"}}}
	p := w.person(t)
	p.open("/oauth/authorize?" + harborAsks().Encode())
	p.answer("password", "username", "alice", "password", password).says(t, http.StatusOK, "One more step", `autocomplete="one-time-code"`, "Use a passkey")
	p.answer("factor", "code", "000000").says(t, http.StatusBadRequest, "The code is wrong")
	if w.written() != 0 || p.loggedIn() != "" {
		t.Error("something is stored before the second factor")
	}
	if q := p.answer("factor", "code", otp).sentTo(t, harborURI); q.Get("code") == "" || p.loggedIn() != "alice" {
		t.Error(q)
	}
}

func TestPasskeyIsASecondFactorOfItsOwnUser(t *testing.T) {
	w := newPageTest(t)
	w.gate.pending, w.factors.has = true, factor.Enrolled{Passkeys: []factor.Passkey{{ID: "1"}}}
	p := w.visitor(t)
	p.answer("password", "username", "bob", "password", password).says(t, http.StatusOK, "Use a passkey")
	if strings.Contains(p.page.text, "one-time-code") {
		t.Error("a code is asked of somebody who has no app")
	}
	p.answer("passkey", "response", "touched").goes(t, "account")
	if p.loggedIn() != "bob" {
		t.Error(p.loggedIn())
	}
}

func TestWhatWasShownExpires(t *testing.T) {
	for name, change := range map[string]func(*pageTest){
		"AfterItsTime": func(w *pageTest) { w.clock.Step(formstate.ResultLife + time.Second) },
		"WithAnotherPassword": func(w *pageTest) {
			w.edit("alice", func(u *iamapi.User) { u.Spec.Password = otherHash() })
		},
		"WithTheUser": func(w *pageTest) { w.users.Delete("", "alice") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newPageTest(t)
			w.gate.pending, w.factors.has = true, factor.Enrolled{TOTP: true}
			p := w.visitor(t)
			p.answer("password", "username", "alice", "password", password)
			change(w)
			p.answer("factor", "code", otp).says(t, http.StatusForbidden)
			if w.written() != 0 {
				t.Error("a session was opened")
			}
		})
	}
}

func TestRequiredFactorIsEnrolledBeforeTheSession(t *testing.T) {
	w := newPageTest(t)
	w.gate.pending = true
	p := w.visitor(t)
	p.answer("password", "username", "alice", "password", password).says(t, http.StatusOK, "Set up an authenticator app", "<svg", "JBSW Y3DP")
	p.answer("totp-confirm", "code", "1").says(t, http.StatusBadRequest, "The code is wrong")
	p.answer("totp-confirm", "code", "123 456").says(t, http.StatusOK, "recover-1", "recover-2")
	if w.written() != 0 {
		t.Error("a session is open before the codes are kept")
	}
	p.answer("enrolled").goes(t, "account")
	if p.loggedIn() != "alice" {
		t.Error("not logged in")
	}
}

func TestFirstPasswordIsChangedBeforeAnythingIsIssued(t *testing.T) {
	w := newPageTest(t)
	_, hash := stand()
	w.user("alice", hash, iamapi.UserActive) // uninitialized
	p := w.person(t)
	p.open("/oauth/authorize?" + harborAsks().Encode())
	p.answer("password", "username", "alice", "password", password).says(t, http.StatusOK, "Choose a new password", `autocomplete="new-password"`)
	p.answer("password-new", "new", newPass, "repeat", "other").says(t, http.StatusBadRequest, "differ")
	p.answer("password-new", "new", "short", "repeat", "short").says(t, http.StatusBadRequest, "does not meet the rule")
	if w.written() != 0 {
		t.Error("a session is open before the password is changed")
	}
	if q := p.answer("password-new", "new", newPass, "repeat", newPass).sentTo(t, harborURI); q.Get("code") == "" || p.loggedIn() != "alice" {
		t.Error(q)
	}
}

// manyGroups returns the names of groups, as long as those of a large directory.
func manyGroups(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%040d", i)
	}
	return out
}

// groupsOfSession returns the groups that the only session of a user has.
func groupsOfSession(t *testing.T, of []*session.Session) []string {
	t.Helper()
	if len(of) == 0 {
		t.Fatal("there is no session")
	}
	return of[0].Groups
}

// The form of a page has room for all that a session keeps of a provider, and what a session does not keep is not in it.
func TestWhoHasManyGroupsRegistersAndGivesTheSecondFactor(t *testing.T) {
	w := newPageTest(t)
	w.github.id = &idp.Identity{Subject: "4711"}
	w.gate.proof = func(provider string, id *idp.Identity) (*iam.AuthnResult, error) {
		return &iam.AuthnResult{Provider: provider, Subject: id.Subject, Groups: manyGroups(200), Hint: strings.Repeat("h", 12<<10),
			Refresh:      strings.Repeat("r", iam.MaxSessionSecret),
			Registration: &iam.Registration{Provider: provider, Subject: id.Subject, Username: "octo", Email: "o@example.com"}}, nil
	}
	p := w.person(t)
	p.open("/oauth/callback/github?code=c&state="+p.away("/oauth/login/github")).says(t, http.StatusOK, "Complete your account")
	p.answer("register", "username", "octo", "email", "o@example.com").goes(t, "account")
	if got := groupsOfSession(t, w.sessions.Of("uid-octo")); !slices.Equal(got, manyGroups(200)) {
		t.Errorf("%d groups", len(got))
	}

	w.factors.has = factor.Enrolled{TOTP: true}
	w.gate.proof = func(provider string, id *idp.Identity) (*iam.AuthnResult, error) {
		return &iam.AuthnResult{User: w.users.ByName("alice"), Provider: provider, Subject: id.Subject, Groups: manyGroups(300), Pending: true,
			Hint: strings.Repeat("h", iam.MaxSessionSecret), Refresh: strings.Repeat("r", iam.MaxSessionSecret)}, nil
	}
	p = w.person(t)
	p.open("/oauth/callback/github?code=c&state="+p.away("/oauth/login/github")).says(t, http.StatusOK, "One more step")
	p.answer("factor", "code", otp).goes(t, "account")
	if got := groupsOfSession(t, w.sessions.Of("uid-alice")); !slices.Equal(got, manyGroups(iam.MaxSessionGroups)) {
		t.Errorf("%d groups", len(got))
	}
}
