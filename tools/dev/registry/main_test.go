package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// start serves a registry until the returned function is called, which returns how it ended.
func start(t *testing.T, htpasswd string) (url string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- serve(ctx, "127.0.0.1:0", htpasswd, w) }()
	line, err := bufio.NewReader(r).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "READY ")
	if err != nil || !ok {
		t.Fatalf("%q, %v", line, err)
	}
	stop = func() error {
		cancel()
		return <-done
	}
	t.Cleanup(cancel)
	return url, stop
}

func ask(t *testing.T, url, user, password string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v2/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		req.SetBasicAuth(user, password)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func TestWhoIsInTheFileIsServed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "htpasswd")
	// ann's password is "secret", at bcrypt's lowest cost.
	if err := os.WriteFile(file, []byte("ann:$2a$04$54i3CdQJcjI8W.M0vMfYSO6wyQhyPeImL5ivo4kkrkMXvOJ2LpIJa\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url, stop := start(t, file)
	for _, c := range []struct {
		user, password string
		code           int
	}{{"ann", "secret", 200}, {"ann", "wrong", 401}, {"bob", "secret", 401}, {"", "", 401}} {
		if code := ask(t, url, c.user, c.password); code != c.code {
			t.Errorf("%s %s: %d, want %d", c.user, c.password, code, c.code)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestWithoutAFileEverybodyIsServed(t *testing.T) {
	url, stop := start(t, "")
	if code := ask(t, url, "", ""); code != http.StatusOK {
		t.Errorf("%d", code)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestItListensOnLoopbackOnly(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		if err := serve(t.Context(), addr, "", io.Discard); err == nil || !strings.Contains(err.Error(), "loopback") {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
