package kubelet

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"kapis.dev/ks-apiserver/tools/dev/internal/pki"
	"kapis.dev/ks-apiserver/tools/dev/internal/process"
)

const apiserver = "apiserver"

// testPods plays pods with a log of two lines.
func testPods(t *testing.T) *pods {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	return &pods{
		Config: Config{
			Dir: dir, ClientName: apiserver,
			Log:         write("log", "2026-01-02T03:04:05Z stdout F out\n2026-01-02T03:04:06Z stderr F err\n"),
			PreviousLog: write("previous", "2026-01-02T03:04:04Z stdout F before\n"),
		},
		spawner: process.NewSpawner(),
	}
}

// buffer is a stream of a client.
type buffer struct{ bytes.Buffer }

func (*buffer) Close() error { return nil }

func TestExec(t *testing.T) {
	p := testPods(t)
	endless, _ := io.Pipe() // a client that keeps its input open
	for claim, tc := range map[string]struct {
		argv     []string
		in       io.Reader
		out, err string
		code     int
		fails    bool
	}{
		"OutputsAreApart":            {argv: []string{"sh", "-c", "echo o; echo e >&2"}, out: "o\n", err: "e\n"},
		"InputEnds":                  {argv: []string{"cat"}, in: strings.NewReader("hi"), out: "hi"},
		"AnOpenInputDoesNotHoldItUp": {argv: []string{"echo", "x"}, in: endless, out: "x\n"},
		"ItsStatusIsTold":            {argv: []string{"sh", "-c", "exit 3"}, code: 3},
		"ASignalIsTold":              {argv: []string{"sh", "-c", "kill -TERM $$"}, code: 143},
		"ItRunsInItsFolder":          {argv: []string{"pwd"}, out: p.Dir + "\n"},
		"ItKnowsItsPod":              {argv: []string{"sh", "-c", "echo $HOSTNAME"}, out: "pod-1\n"},
		"WhatIsMissingIsAnError":     {argv: []string{"/no/such/program"}, fails: true},
		"ItHasAFolderInMemory":       {argv: []string{"sh", "-c", `mkdir -p "$1" && cd "$1" && pwd`, "sh", "/run/ks/a"}, out: p.Dir + "/memory/pod-1/a\n"},
		"NothingIsAnError":           {fails: true},
	} {
		t.Run(claim, func(t *testing.T) {
			var out, errOut buffer
			err := p.ExecInContainer(t.Context(), "pod-1", "", "c", tc.argv, tc.in, &out, &errOut, false, nil, 0)
			var exit utilexec.CodeExitError
			if errors.As(err, &exit) != (tc.code != 0) || exit.Code != tc.code || (err != nil) != (tc.fails || tc.code != 0) {
				t.Errorf("ended with %v", err)
			}
			if out.String() != tc.out || errOut.String() != tc.err {
				t.Errorf("wrote %q and %q", out.String(), errOut.String())
			}
		})
	}
}

func TestExecOnATerminal(t *testing.T) {
	p := testPods(t)
	resize := make(chan remotecommand.TerminalSize, 1)
	resize <- remotecommand.TerminalSize{Width: 123, Height: 45}
	close(resize)
	var out buffer
	// The size arrives while the command runs.
	script := `test -t 0 && test -t 1; until [ "$(stty size)" = "45 123" ]; do :; done; echo "$TERM"; exit 4`
	err := p.ExecInContainer(t.Context(), "pod", "", "c", []string{"sh", "-c", script}, nil, &out, nil, true, resize, 0)
	var exit utilexec.CodeExitError
	if !errors.As(err, &exit) || exit.Code != 4 || strings.TrimSpace(out.String()) != "xterm" {
		t.Errorf("wrote %q, ended with %v", out.String(), err)
	}
}

func TestExecEndsWithItsClient(t *testing.T) {
	p := testPods(t)
	for claim, tty := range map[string]bool{"WithPipes": false, "OnATerminal": true} {
		t.Run(claim, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			read, write := io.Pipe()
			done := make(chan error, 1)
			go func() {
				done <- p.ExecInContainer(ctx, "pod", "", "c", []string{"sh", "-c", "echo up; sleep 1000 & wait"}, nil, write, nil, tty, nil, 0)
			}()
			if _, err := read.Read(make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, read) }()
			leave()
			if err := <-done; err == nil {
				t.Error("a command that was killed counts as done")
			}
		})
	}
}

func TestLogs(t *testing.T) {
	server := httptest.NewServer(testPods(t).handler())
	defer server.Close()
	for claim, tc := range map[string]struct {
		query, want string
		code        int
	}{
		"All":                   {"", "out\nerr\n", 200},
		"TheLastLine":           {"tailLines=1", "err\n", 200},
		"NoLine":                {"tailLines=0", "", 200},
		"WithTimes":             {"tailLines=1&timestamps=true", "2026-01-02T03:04:06.000000000Z err\n", 200},
		"SinceATime":            {"sinceTime=2026-01-02T03:04:06Z", "err\n", 200},
		"SinceLongAgo":          {"sinceSeconds=9000000000", "out\nerr\n", 200},
		"AFewBytes":             {"limitBytes=2", "ou", 200},
		"OneStream":             {"stream=Stdout", "out\n", 200},
		"TheOtherStream":        {"stream=Stderr", "err\n", 200},
		"AnEarlierLife":         {"previous=true", "before\n", 200},
		"NegativeIsRefused":     {"tailLines=-1", "", 400},
		"NoNumberIsRefused":     {"limitBytes=x", "", 400},
		"NoSecondsAreRefused":   {"sinceSeconds=x", "", 400},
		"NoTimeIsRefused":       {"sinceTime=x", "", 400},
		"TooManyDigitsRefused":  {"tailLines=99999999999999999999", "", 400},
		"UnknownOptionsAreFine": {"insecureSkipTLSVerifyBackend=true", "out\nerr\n", 200},
	} {
		t.Run(claim, func(t *testing.T) {
			resp, err := http.Get(server.URL + "/containerLogs/ns/pod/c?" + tc.query)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != tc.code || (tc.code == 200 && string(body) != tc.want) {
				t.Errorf("%d %q, %v", resp.StatusCode, body, err)
			}
		})
	}
}

func TestFollowedLogsShowWhatIsAppended(t *testing.T) {
	p := testPods(t)
	server := httptest.NewServer(p.handler())
	defer server.Close()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/containerLogs/ns/pod/c?follow=true&tailLines=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	expect := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
			t.Fatalf("read %q, %v", got, err)
		}
	}
	expect("err\n")
	log, err := os.OpenFile(p.Log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.WriteString("2026-01-02T03:04:07Z stdout F more\n"); err != nil {
		t.Fatal(err)
	}
	expect("more\n")
}

func FuzzLogOptions(f *testing.F) {
	f.Add("tailLines=1&follow=true&sinceTime=2026-01-02T03:04:06Z")
	f.Add("sinceSeconds=-1&limitBytes=0")
	f.Fuzz(func(t *testing.T, text string) {
		query, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		o, err := logOptions(query, time.Now())
		if err == nil && ((o.TailLines != nil && *o.TailLines < 0) || (o.LimitBytes != nil && *o.LimitBytes < 0)) {
			t.Errorf("accepted %q", text)
		}
	})
}

// serve runs a kubelet, and returns its address and the authority that signs for it and its clients.
func serve(t *testing.T) (string, *pki.Authority) {
	t.Helper()
	p := testPods(t)
	authority, err := pki.EnsureAuthority(p.Dir, "ca", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Ensure(p.Dir, "kubelet", pki.Request{CommonName: "k", Names: []string{"127.0.0.1"}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	p.CertFile, p.KeyFile = filepath.Join(p.Dir, "kubelet.crt"), filepath.Join(p.Dir, "kubelet.key")
	p.ClientCAFile = filepath.Join(p.Dir, "ca.crt")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "https://" + listener.Addr().String(), authority
}

func TestOnlyTheAPIServerIsAdmitted(t *testing.T) {
	address, authority := serve(t)
	other, err := pki.NewAuthority("other", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Cert)
	for claim, tc := range map[string]struct {
		signer   *pki.Authority
		name     string
		admitted bool
	}{
		"TheAPIServer":               {authority, apiserver, true},
		"AnotherUserOfTheCluster":    {authority, "kubernetes-admin", false},
		"TheSameNameFromAnotherHand": {other, apiserver, false},
		"Nobody":                     {},
	} {
		t.Run(claim, func(t *testing.T) {
			config := &tls.Config{RootCAs: roots}
			if tc.signer != nil {
				pair, err := tc.signer.Issue(pki.Request{CommonName: tc.name, Groups: []string{"system:masters"}}, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
				if err != nil {
					t.Fatal(err)
				}
				config.Certificates = []tls.Certificate{cert}
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
			defer client.CloseIdleConnections()
			resp, err := client.Get(address + "/healthz")
			if err == nil {
				resp.Body.Close()
			}
			if (err == nil) != tc.admitted {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestPortForwardReachesTheGreeting(t *testing.T) {
	target, err := serveGreeting(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := testPods(t)
	p.target = target
	ours, theirs := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- p.PortForward(t.Context(), "", "", 80, theirs) }()
	if _, err := io.WriteString(ours, "GET /a%20b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(ours)
	if err != nil || !strings.HasSuffix(string(answer), Greeting+": GET /a%20b\n") {
		t.Errorf("answered %q, %v", answer, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestHijackedConnections(t *testing.T) {
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w, r, done := watchConnection(w, r)
		defer done()
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		early := make([]byte, 5)
		if _, err := io.ReadFull(buffered, early); err != nil || string(early) != "early" {
			t.Errorf("what came with the request: %q, %v", early, err)
		}
		if r.Context().Err() != nil {
			t.Error("the context has ended too early")
		}
		_, _ = io.WriteString(conn, "bye")
		_, _ = io.Copy(io.Discard, buffered)
		<-r.Context().Done()
		close(gone)
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\n\r\nearly"); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 3)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "bye" {
		t.Errorf("read %q, %v", answer, err)
	}
	conn.Close()
	<-gone
}

func TestMainNeedsItsFlags(t *testing.T) {
	for claim, args := range map[string][]string{
		"AnUnknownFlag":  {"--nonsense"},
		"NoAddress":      {"--address", "256.0.0.1:0"},
		"NoCertificates": {"--address", "127.0.0.1:0"},
	} {
		t.Run(claim, func(t *testing.T) {
			if err := Main(args); err == nil {
				t.Error("served all the same")
			}
		})
	}
}
