package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestMain makes the test binary play the programs.
func TestMain(m *testing.M) {
	switch os.Getenv("FAKE") {
	case "":
		os.Exit(m.Run())
	case "polite":
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		fmt.Println("up")
		<-stop
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("up")
		select {}
	case "broken":
		fmt.Println("first words")
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(7)
	case "sorry": // fails when asked to stop
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		fmt.Println("up")
		<-stop
		os.Exit(66)
	}
}

// screen is what the user sees.
type screen struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newSession(t *testing.T) *session {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "log"), 0o700); err != nil {
		t.Fatal(err)
	}
	return &session{
		consoleSecret: devConsoleSecret,
		options:       options{dir: dir, bin: dir, repo: dir, port: 1, tlsPort: 2},
		out:           &screen{}, spawner: newSpawner(), ended: make(chan *child, 8),
	}
}

func TestParse(t *testing.T) {
	for claim, tc := range map[string]struct {
		args     []string
		password string
		fails    string
	}{
		"DefaultsAreFine":            {},
		"TheSamePortTwice":           {args: []string{"--port", "80", "--tls-port", "80"}, fails: "port 80 cannot serve both"},
		"AnUnknownArgument":          {args: []string{"x"}, fails: `unknown argument "x"`},
		"ARealNode":                  {args: []string{"--node", "real"}},
		"AnUnknownNode":              {args: []string{"--node", "reel"}, fails: "--node reel is not known"},
		"AnUnknownFlag":              {args: []string{"--nonsense"}, fails: "nonsense"},
		"AWeakPassword":              {password: "weak", fails: "8 to 64 characters"},
		"AStrongPassword":            {password: "Str0ngEnough"},
		"TheFlagBeatsTheEnvironment": {args: []string{"--admin-password", "weak"}, password: "Str0ngEnough", fails: "8 to 64"},
	} {
		t.Run(claim, func(t *testing.T) {
			o, err := parse(tc.args, tc.password)
			if (err != nil) != (tc.fails != "") || (err != nil && !strings.Contains(err.Error(), tc.fails)) {
				t.Fatalf("got %v", err)
			}
			if err == nil && (!filepath.IsAbs(o.dir) || !filepath.IsAbs(o.bin) || !filepath.IsAbs(o.repo) || o.kubeconfig != "") {
				t.Errorf("paths %+v", o)
			}
		})
	}
}

func TestATakenPortIsNamedInOneLine(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	s := newSession(t)
	s.tlsPort = port
	s.port = 0 // any
	err = s.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), strconv.Itoa(port)) || !strings.Contains(err.Error(), "TLS_PORT=") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
	if len(s.children) > 0 {
		t.Error("something was started all the same")
	}
}
