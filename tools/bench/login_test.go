package main

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/stack"
)

func TestLoginFiguresAreMediansBesideBcrypt(t *testing.T) {
	round := func(logins int64) loginRound {
		return loginRound{
			logins:   logins,
			cpu:      time.Second,
			wall:     2 * time.Second,
			hashes:   20,
			hashCPU:  time.Second,
			hashWall: time.Second / 2,
			writes:   float64(logins),
			idle: []time.Duration{
				time.Millisecond,
			},
			bare:   []time.Duration{2 * time.Millisecond},
			during: []time.Duration{3 * time.Millisecond},
			took:   []time.Duration{60 * time.Millisecond},
		}
	}
	want := map[string]figure{
		"password-logins-per-cpu-second": {value: 19, base: 20},
		"password-logins-per-second":     {value: 9.5, base: 40},
		"password-login-p50":             {value: 60},
		"writes-per-password-login":      {value: 1},
		"list-p50-during-logins":         {value: 3, base: 1},
		"list-p99-during-logins":         {value: 3, base: 1},

		"list-p99-beside-bare-handler-during-logins": {value: 3, base: 2},
	}
	got := loginFigures([]loginRound{round(19), round(3), round(100)})
	for _, f := range got {
		if w := want[f.name]; f.value != w.value || f.base != w.base {
			t.Errorf("%s is %v beside %v, want %v beside %v", f.name, f.value, f.base, w.value, w.base)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d figures, want %d", len(got), len(want))
	}
}

func TestWritesOfLoginsAreCounted(t *testing.T) {
	const metrics = `# HELP apiserver_request_total Counter of apiserver requests
apiserver_request_total{code="201",group="session.kapis.dev",resource="sessions",verb="POST",version="v1alpha1"} 40
apiserver_request_total{code="409",group="session.kapis.dev",resource="lockouts",verb="PUT"} 2
apiserver_request_total{code="200",group="session.kapis.dev",resource="sessions",verb="DELETE"} 1e+1
apiserver_request_total{code="200",group="session.kapis.dev",resource="sessions",verb="GET"} 700
apiserver_request_total{code="201",group="",resource="pods",verb="POST"} 1000
apiserver_request_total{code="201",resource="sessions",verb="POST"} many
apiserver_request_duration_seconds_count{resource="sessions",verb="POST"} 40
`
	if n := writesIn(metrics); n != 52 {
		t.Errorf("%v writes, want 52", n)
	}
}

// loginServer answers logins until it has had so many, and counts them by name.
func loginServer(t *testing.T, most int64) (stack.Server, func() map[string]int) {
	t.Helper()
	var mu sync.Mutex
	var n atomic.Int64
	names := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/oauth/token" || n.Add(1) > most {
			http.Error(w, "no", http.StatusTeapot)
			return
		}
		mu.Lock()
		names[r.FormValue("username")]++
		mu.Unlock()
		_, _ = w.Write([]byte(`{"access_token":"t"}`))
	}))
	t.Cleanup(s.Close)
	return stack.Server{URL: s.URL}, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return names
	}
}

func TestAllPeopleLogInInTurnsAndNobodyIsCutOff(t *testing.T) {
	at, names := loginServer(t, 1<<40)
	l := startLogins(t.Context(), at)
	for l.next.Load() < 3*loginPeople {
		time.Sleep(time.Millisecond)
	}
	took, err := l.stop()
	if err != nil || len(took) < 3*loginPeople-loginClients || !slices.IsSorted(took) {
		t.Errorf("%d logins, sorted %v: %v", len(took), slices.IsSorted(took), err)
	}
	sum := 0
	for _, n := range names() {
		sum += n
	}
	if len(names()) != loginPeople || sum != len(took) {
		t.Errorf("%d users and %d logins arrived, want %d and %d", len(names()), sum, loginPeople, len(took))
	}
}

func TestALoginThatFailsEndsTheRound(t *testing.T) {
	at, _ := loginServer(t, 7)
	l := startLogins(t.Context(), at)
	l.wg.Wait()
	if took, err := l.stop(); err == nil || !strings.Contains(err.Error(), "418") || len(took) != 7 {
		t.Errorf("%d logins, %v", len(took), err)
	}
}

func TestPacedRequestsAreCountedAndFailuresTold(t *testing.T) {
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		if r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer s.Close()
	took, err := targetOf(t, s, "/list").paced(t.Context(), time.Millisecond, 20*time.Millisecond)
	if err != nil || len(took) == 0 || int64(len(took)) != n.Load() || !slices.IsSorted(took) || took[0] <= 0 {
		t.Errorf("%d of %d requests: %v", len(took), n.Load(), err)
	}
	if _, err := targetOf(t, s, "/broken").paced(t.Context(), time.Millisecond, time.Second); err == nil || !strings.Contains(err.Error(), "/broken") {
		t.Errorf("error %v, want one that names the path", err)
	}
}

func TestBcryptAloneUsesProcessorTime(t *testing.T) {
	n, cpu, wall, err := bcryptAlone(time.Millisecond)
	if err != nil || n < int64(runtime.NumCPU()) || cpu <= 0 || wall < time.Millisecond {
		t.Errorf("%d comparisons, %v of a processor in %v: %v", n, cpu, wall, err)
	}
}

func TestCredentialsAreRecognizedAndOthersAreNot(t *testing.T) {
	by, access, key, err := credentials()
	if err != nil {
		t.Fatal(err)
	}
	for name, credential := range map[string]string{"token": access, "API key": key} {
		if d, err := recognize(by, credential); err != nil || d <= 0 {
			t.Errorf("%s: %v, %v", name, d, err)
		}
		if _, err := recognize(by, credential+"x"); err == nil {
			t.Errorf("%s: one that is wrong is taken", name)
		}
	}
}
