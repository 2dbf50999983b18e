package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// syncBuffer is a log that a child's output and the test may touch at once.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func startFake(t *testing.T, o Options) *Stack {
	t.Helper()
	o.Bin, o.Dir = fakeBin(t), t.TempDir()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStart(t *testing.T) {
	log := &syncBuffer{}
	t.Setenv("KUBECONFIG", "/somebody/elses")
	s := startFake(t, Options{Log: log})

	t.Run("ReadsTheAddressesFromTheReadyLine", func(t *testing.T) {
		if !strings.HasPrefix(s.URL, "http://127.0.0.1:") || !strings.HasPrefix(s.TLSURL, "https://127.0.0.1:") {
			t.Errorf("addresses %q and %q", s.URL, s.TLSURL)
		}
	})
	t.Run("ReadsTheAdminPassword", func(t *testing.T) {
		if s.AdminPassword != "Secret1pass" {
			t.Errorf("password %q", s.AdminPassword)
		}
	})
	t.Run("PassesTheOutputOn", func(t *testing.T) {
		if !strings.Contains(log.String(), "log in as admin\n") {
			t.Errorf("log %q", log)
		}
	})
	t.Run("KeepsTheCallersKubeconfigAway", func(t *testing.T) {
		if b, err := os.ReadFile(filepath.Join(s.Dir, "seen-kubeconfig")); err != nil || len(b) > 0 {
			t.Errorf("run saw the kubeconfig %q, %v", b, err)
		}
	})
	t.Run("NamesTheStateFolderInErrors", func(t *testing.T) {
		if _, err := s.KSConfig(); err == nil || !strings.Contains(err.Error(), s.Dir) {
			t.Errorf("error %v", err)
		}
	})
}

func TestStartGivesTheNamedKubeconfigToRun(t *testing.T) {
	s := startFake(t, Options{Kubeconfig: "/a/kubeconfig"})
	if b, err := os.ReadFile(filepath.Join(s.Dir, "seen-kubeconfig")); err != nil || string(b) != "/a/kubeconfig" {
		t.Errorf("run saw %q, %v", b, err)
	}
	if _, err := s.RESTConfig(); err == nil || !strings.Contains(err.Error(), "/a/kubeconfig") {
		t.Errorf("error %v does not name the file", err)
	}
}

func TestStartPrefersAGivenPassword(t *testing.T) {
	s := startFake(t, Options{Env: []string{"ADMIN_PASSWORD=Given1pass"}})
	if s.AdminPassword != "Given1pass" {
		t.Errorf("password %q", s.AdminPassword)
	}
}

func TestStartFailureShowsWhatRunSaid(t *testing.T) {
	_, err := Start(t.Context(), Options{Bin: fakeBin(t), Dir: t.TempDir(), Args: []string{"--fail"}})
	if err == nil || !strings.Contains(err.Error(), "port 9090 is taken") || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("error %v", err)
	}
}

func TestStartWithoutTheProgramFails(t *testing.T) {
	_, err := Start(t.Context(), Options{Bin: t.TempDir(), Dir: t.TempDir()})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want one that wraps fs.ErrNotExist", err)
	}
}

func TestCancelledStartStopsWhatItStarted(t *testing.T) {
	bin := fakeBin(t)
	ctx, cancel := context.WithCancel(t.Context())
	log := &signalWriter{on: "waiting for the cluster", do: cancel}
	_, err := Start(ctx, Options{Bin: bin, Dir: t.TempDir(), Args: []string{"--hang"}, Log: log})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	for _, pid := range descendants(os.Getpid()) {
		if argv, err := commandLine(pid); err == nil && len(argv) > 0 && argv[0] == filepath.Join(bin, "run") {
			t.Errorf("process %d still runs: %v", pid, argv)
		}
	}
}

// signalWriter calls do when on has been written.
type signalWriter struct {
	on   string
	do   func()
	seen strings.Builder
}

func (w *signalWriter) Write(p []byte) (int, error) {
	w.seen.Write(p)
	if strings.Contains(w.seen.String(), w.on) {
		w.do()
	}
	return len(p), nil
}

func TestProcess(t *testing.T) {
	s := startFake(t, Options{})
	server, ok := s.Process("ks-apiserver")
	if !ok {
		t.Fatal("ks-apiserver was not found")
	}
	for name, want := range map[string]bool{"kube-apiserver": true, "ks-controller-manager": false, "run": false} {
		if pid, ok := s.Process(name); ok != want || ok && pid == server {
			t.Errorf("Process(%q) = %d, %v", name, pid, ok)
		}
	}
	if rss, err := RSS(server); err != nil || rss < 1<<20 || rss > 1<<31 {
		t.Errorf("RSS = %d, %v", rss, err)
	}
	for { // a hundredth of a second shows, which a fast machine may not have needed yet: the test's own time limit is the bound
		cpu, err := CPU(server)
		if err != nil || cpu > time.Minute {
			t.Fatalf("CPU = %v, %v", cpu, err)
		}
		if cpu > 0 {
			break
		}
		if _, err := s.Do(t.Context(), Request{Path: "/echo"}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStopEndsEveryProcess(t *testing.T) {
	s := startFake(t, Options{})
	r, err := s.Replica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pids := append(descendants(s.run.process.Pid), s.run.process.Pid, r.PID)
	if len(pids) < 4 {
		t.Fatalf("only the processes %v were found", pids)
	}
	for range 2 {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d: %v, want it gone", pid, err)
		}
	}
	select {
	case <-s.Done():
	default:
		t.Error("Done is not closed")
	}
}

func TestStopKillsWhatDoesNotHeed(t *testing.T) {
	s, err := Start(t.Context(), Options{
		Bin: fakeBin(t), Dir: t.TempDir(), Args: []string{"--deaf"}, Env: []string{"ADMIN_PASSWORD=x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.run.stop(time.Millisecond); err == nil || !strings.Contains(err.Error(), "was killed") {
			t.Errorf("error %v, want that it was killed", err)
		}
	}
}

func TestReplica(t *testing.T) {
	s := startFake(t, Options{})
	r, err := s.Replica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.URL == s.URL {
		t.Errorf("the replica has the address of the first, %s", r.URL)
	}
	resp, err := r.Do(t.Context(), Request{Path: "/echo"})
	if err != nil {
		t.Fatal(err)
	}
	var echo map[string]string
	if err := resp.JSON(&echo, http.StatusOK); err != nil {
		t.Fatal(err)
	}
	if echo["mark"] != "of the first" {
		t.Errorf("the environment was not taken over: %v", echo)
	}
	if echo["securePort"] != "0" {
		t.Errorf("the HTTPS port is %s, want 0", echo["securePort"])
	}
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
}

func TestKilledReplicasAreNoFailureOfTheStop(t *testing.T) {
	s := startFake(t, Options{})
	r, err := s.Replica(t.Context(), "--fail-at-the-end")
	if err != nil {
		t.Fatal(err)
	}
	r.Kill()
	if _, err := r.Do(t.Context(), Request{Path: "/echo"}); err == nil {
		t.Error("it answers yet")
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

func TestReplicaFailureShowsWhatItSaid(t *testing.T) {
	s := startFake(t, Options{})
	if _, err := s.Replica(t.Context(), "--refuse"); err == nil || !strings.Contains(err.Error(), "no cluster") {
		t.Errorf("error %v", err)
	}
}

func TestStopTellsOfAFailure(t *testing.T) {
	s := startFake(t, Options{})
	r, err := s.Replica(t.Context(), "--fail-at-the-end")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Stop(); err == nil || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(err.Error(), "found a race") {
		t.Errorf("error %v", err)
	}
	s.forget(r) // or the clean-up reports it too
}

func TestDo(t *testing.T) {
	s := startFake(t, Options{})
	tests := map[string]struct {
		request Request
		want    map[string]string
	}{
		"GetIsTheDefaultAndCarriesNothing": {
			Request{Path: "/echo"},
			map[string]string{"method": "GET", "authorization": "", "contentType": "", "body": ""},
		},
		"ABodyIsJSONUnlessSaidOtherwise": {
			Request{Method: "POST", Path: "/echo", Body: []byte("{}"), Token: "t"},
			map[string]string{"method": "POST", "authorization": "Bearer t", "contentType": "application/json", "body": "{}"},
		},
		"HeadersWin": {
			Request{Method: "PATCH", Path: "/echo", Body: []byte("x"), Header: http.Header{"Content-Type": {"text/plain"}}},
			map[string]string{"contentType": "text/plain"},
		},
		"ThePathIsSentAsItStands": {
			Request{Path: "/echo?a=%2e%2E&b=//"},
			map[string]string{"uri": "/echo?a=%2e%2E&b=//"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			resp, err := s.Do(t.Context(), tc.request)
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]string
			if err := json.Unmarshal(resp.Body, &got); err != nil {
				t.Fatal(err)
			}
			for k, want := range tc.want {
				if got[k] != want {
					t.Errorf("%s is %q, want %q", k, got[k], want)
				}
			}
		})
	}
	t.Run("RedirectsAreAnswers", func(t *testing.T) {
		resp, err := s.Do(t.Context(), Request{Path: "/moved"})
		if err != nil || resp.Status != http.StatusFound || resp.Header.Get("Location") != "/readyz" {
			t.Errorf("answer %+v, %v", resp, err)
		}
	})
	t.Run("JSONShowsAnUnexpectedAnswer", func(t *testing.T) {
		resp, err := s.Do(t.Context(), Request{Path: "/nowhere"})
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.JSON(nil, http.StatusOK); err == nil || !strings.Contains(err.Error(), "404") || !strings.Contains(err.Error(), "not found") {
			t.Errorf("error %v", err)
		}
	})
}

func TestLogin(t *testing.T) {
	s := startFake(t, Options{})
	token, err := s.Login(t.Context(), "admin", s.AdminPassword)
	if err != nil {
		t.Fatal(err)
	}
	want := Token{Access: "a1", Refresh: "r1", ExpiresIn: 2 * time.Hour}
	if token != want {
		t.Errorf("token %+v, want %+v", token, want)
	}
	if token, err = s.Renew(t.Context(), token.Refresh); err != nil || token != want {
		t.Errorf("renewed token %+v, %v", token, err)
	}
	if _, err := s.Login(t.Context(), "admin", "wrong"); err == nil || !strings.Contains(err.Error(), "invalid_grant") {
		t.Errorf("error %v of a wrong password", err)
	}
}
