package main

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// newRenewal returns one whose token counts if it is a-password. kubectl prints what is in the file admin.
func newRenewal(t *testing.T, l login) *renewal {
	t.Helper()
	s := newSession(t)
	fakeServer(t, s)
	for name, text := range map[string]string{
		"tls-ca.crt": "ca", "admin-password": "Right1pw\n", "admin": "u1/1 Active", "kubectl": "#!/bin/sh\ncat " + s.path("admin"),
	} {
		if err := os.WriteFile(s.path(name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return &renewal{session: s, login: l, due: start.Add(time.Hour)}
}

var start = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func (r *renewal) write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(r.path(file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *renewal) inKubeconfig(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(r.path("ks.kubeconfig"))
	if err != nil {
		return ""
	}
	_, token, _ := strings.Cut(string(b), "token: ")
	return strings.Trim(token, "\n\"")
}

func TestRenewal(t *testing.T) {
	for claim, tc := range map[string]struct {
		refresh, access string
		fails           bool
	}{
		"ByTheRefreshToken":         {refresh: "r1", access: "a-refresh_token"},
		"ByPasswordWhenItIsRefused": {refresh: "stolen", access: "a-password"},
		"ByPasswordWithoutOne":      {access: "a-password"},
		"NotWhileTheServerIsDown":   {refresh: "down", fails: true},
	} {
		t.Run(claim, func(t *testing.T) {
			l, err := newRenewal(t, login{Refresh: tc.refresh}).renew(t.Context())
			if l.Access != tc.access || (err != nil) != tc.fails {
				t.Errorf("%+v, %v", l, err)
			}
		})
	}
	for seconds, want := range map[int64]time.Duration{7200: time.Hour, 1: shortestRest, 0: shortestRest} {
		if got := renewIn(login{Seconds: seconds}); got != want {
			t.Errorf("%d s: renewed in %s", seconds, got)
		}
	}
}

func TestATokenThatCountsIsRenewedWhenItIsDue(t *testing.T) {
	r := newRenewal(t, login{Access: "a-password", Refresh: "r1", Seconds: 7200})
	r.step(t.Context(), start)
	if got := r.inKubeconfig(t); got != "" {
		t.Errorf("renewed at once: %s", got)
	}
	r.step(t.Context(), start.Add(time.Hour))
	if got := r.inKubeconfig(t); got != "a-refresh_token" || r.due != start.Add(2*time.Hour) {
		t.Errorf("the token is %q, due %s", got, r.due)
	}
}

func TestAnEndedSessionIsRenewedOnceTheAdminIsThereAgain(t *testing.T) {
	r := newRenewal(t, login{Access: "a-deleted", Refresh: "gone", Seconds: 7200})
	shown := r.out.(*screen)
	r.write(t, "admin", "")
	for range 3 {
		r.step(t.Context(), start)
	}
	if got := shown.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "there is no user admin") {
		t.Errorf("said %q", got)
	}
	r.write(t, "admin", "u2/1 ") // just created
	r.step(t.Context(), start)
	if got := shown.String(); !strings.Contains(got, "not active") {
		t.Errorf("said %q", got)
	}
	r.write(t, "admin", "u2/1 Active")
	r.step(t.Context(), start)
	if got := r.inKubeconfig(t); got != "a-password" || !strings.Contains(shown.String(), "is renewed") {
		t.Errorf("the token is %q, said %q", got, shown)
	}
}

// A wrong password is sent once for each user and password: more would lock the admin out.
func TestAPasswordThatIsRefusedIsNotTriedAgain(t *testing.T) {
	r := newRenewal(t, login{Access: "a-deleted", Seconds: 7200})
	shown := r.out.(*screen)
	r.write(t, "admin-password", "Wrong1pw")
	r.step(t.Context(), start)
	if got := shown.String(); !strings.Contains(got, "another password than "+r.path("admin-password")) {
		t.Errorf("said %q", got)
	}
	logins := 0
	serve(t, r.session, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/oauth/token" {
			logins++
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
	})
	r.step(t.Context(), start)
	if logins != 0 {
		t.Errorf("%d logins with the password that was refused", logins)
	}
	r.write(t, "admin", "u2/1 Active")
	r.step(t.Context(), start)
	r.write(t, "admin", "u2/2 Active")
	r.step(t.Context(), start)
	r.write(t, "admin-password", "Wrong2pw")
	r.step(t.Context(), start)
	r.step(t.Context(), start)
	if logins != 3 {
		t.Errorf("%d logins after three changes", logins)
	}
}
