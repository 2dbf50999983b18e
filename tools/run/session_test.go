package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
)

func TestAwait(t *testing.T) {
	s := newSession(t)
	asked := 0
	err := s.await(t.Context(), "it", func(context.Context) error {
		if asked++; asked < 2 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || asked != 2 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	why := errors.New("a child has died")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := s.await(ctx, "it", func(context.Context) error { return errors.New("not yet") }); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

// TestRunEndsWithItsControlPlane plays the whole of a start that fails: the first program dies at once.
func TestRunEndsWithItsControlPlane(t *testing.T) {
	s := newSession(t)
	s.port, s.tlsPort = 0, 0
	script := "#!/bin/sh\n[ $1 = up ] || exit 1\necho 'port 1 is taken' >&2\nexit 1\n"
	if err := os.WriteFile(s.program("dev"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	err := s.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "dev has died") || !strings.Contains(err.Error(), "port 1 is taken") {
		t.Errorf("got %v", err)
	}
}

func TestTheStartWaitsForTheAdminsWrites(t *testing.T) {
	s := newSession(t)
	asked := 0
	serve(t, s, func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch {
		case r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces" || r.URL.RawQuery != "dryRun=All":
			w.WriteHeader(http.StatusBadRequest)
		case asked < 3:
			w.WriteHeader(http.StatusForbidden)
		default:
			w.WriteHeader(http.StatusCreated)
		}
	})
	if err := s.awaitWrite(t.Context(), login{Access: "x"}); err != nil || asked != 3 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}

func TestRunThatIsInterruptedEndsCleanly(t *testing.T) {
	s := newSession(t)
	s.port, s.tlsPort = 0, 0
	script := "#!/bin/sh\n[ $1 = up ] || exit 1\ntrap 'exit 0' TERM\necho started\nwhile :; do sleep 0.05; done\n"
	if err := os.WriteFile(s.program("dev"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	shown := s.out.(*screen)
	s.out = writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "started") {
			interrupt()
		}
		return shown.Write(p)
	})
	if err := s.run(ctx); err != nil {
		t.Error(err)
	}
	if strings.Contains(shown.String(), "READY") {
		t.Errorf("said %s", shown)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
