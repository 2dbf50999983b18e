package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func (s *session) launchFake(t *testing.T, role string, grace time.Duration, each func(string)) *child {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.launch(role, grace, each, "/usr/bin/env", "FAKE="+role, self); err != nil {
		t.Fatal(err)
	}
	return s.children[len(s.children)-1]
}

// said gets what is said.
type said chan string

func (s said) Write(p []byte) (int, error) {
	s <- string(p)
	return len(p), nil
}

func TestChildren(t *testing.T) {
	t.Run("StopInReverseOrder", func(t *testing.T) {
		s := newSession(t)
		up := make(chan string, 2)
		s.launchFake(t, "polite", time.Minute, func(l string) { up <- l })
		s.launchFake(t, "polite", time.Minute, func(l string) { up <- l })
		<-up
		<-up
		if err := s.stop(); err != nil {
			t.Error(err)
		}
		for range s.children {
			<-s.ended // each says by itself that it has ended, in any order
		}
		if !s.children[1].at.Before(s.children[0].at) {
			t.Error("the first started ended first")
		}
		if err := s.stop(); err != nil {
			t.Errorf("the second time: %v", err)
		}
	})
	t.Run("TheStubbornAreKilledAndNamed", func(t *testing.T) {
		s := newSession(t)
		up := make(chan string, 1)
		s.launchFake(t, "stubborn", time.Millisecond, func(l string) { up <- l })
		<-up
		if err := s.stop(); err == nil || !strings.Contains(err.Error(), "stubborn did not stop within") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("AFailedStopIsNamed", func(t *testing.T) {
		s := newSession(t)
		up := make(chan string, 1)
		s.launchFake(t, "sorry", time.Minute, func(l string) { up <- l })
		<-up
		if err := s.stop(); err == nil || !strings.Contains(err.Error(), "exit status 66") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("ACrashIsToldWithItsLastWords", func(t *testing.T) {
		s := newSession(t)
		s.launchFake(t, "broken", time.Minute, nil)
		c := <-s.ended
		err := c.failure()
		for _, want := range []string{"broken has died: exit status 7", c.log, "first words", "last words"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is missing in %q", want, err)
			}
		}
		if err := s.stop(); err != nil {
			t.Errorf("told twice: %v", err)
		}
	})
	t.Run("OneThatWasKilledIsStartedAgainWhereThatIsWanted", func(t *testing.T) {
		s := newSession(t)
		lines := make(said, 1)
		s.restart, s.out = "sleeper", lines
		if err := s.launch("sleeper", time.Minute, nil, "sleep", "600"); err != nil {
			t.Fatal(err)
		}
		if err := s.launch("another", time.Minute, nil, "sleep", "600"); err != nil {
			t.Fatal(err)
		}
		for _, c := range s.children {
			if err := c.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		if c := <-s.ended; c.name != "another" {
			t.Errorf("%s has ended", c.name)
		}
		if line := <-lines; !strings.HasPrefix(line, "sleeper was killed") {
			t.Errorf("%q is said", line)
		}
		if err := s.children[0].stop(); err == nil || !strings.Contains(err.Error(), "terminated") { // as sleep ends
			t.Errorf("what is started again is stopped: %v", err)
		}
		if c := <-s.ended; c.name != "sleeper" {
			t.Errorf("%s has ended", c.name)
		}
	})
	t.Run("WhatIsMissingIsAnError", func(t *testing.T) {
		s := newSession(t)
		if err := s.launch("x", time.Minute, nil, "/no/such/program"); err == nil || len(s.children) != 0 {
			t.Errorf("got %v and %d children", err, len(s.children))
		}
	})
}

func TestCopyLinesGoesOnAfterALineThatIsTooLong(t *testing.T) {
	read, write := io.Pipe()
	go func() {
		_, _ = io.WriteString(write, "short\n"+strings.Repeat("x", 1<<20)+"\nend\n")
		_ = write.Close()
	}()
	var log bytes.Buffer
	var seen []string
	copyLines(read, &log, func(l string) { seen = append(seen, l) })
	if len(seen) != 1 || seen[0] != "short" || !strings.HasSuffix(log.String(), "end\n") {
		t.Errorf("saw %q, logged %d bytes", seen, log.Len())
	}
}

func TestLogsStartOverWhenTheyAreLarge(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.log")
	for claim, tc := range map[string]struct {
		before int64
		kept   bool
	}{"SmallOnesGoOn": {10, true}, "LargeOnesStartOver": {maxLog + 1, false}} {
		t.Run(claim, func(t *testing.T) {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(file, tc.before); err != nil {
				t.Fatal(err)
			}
			log, err := openLog(file)
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			if info, err := log.Stat(); err != nil || (info.Size() == tc.before) != tc.kept {
				t.Errorf("%v, %v", info.Size(), err)
			}
		})
	}
}

func TestTool(t *testing.T) {
	s := newSession(t)
	if out, err := s.tool(t.Context(), []string{"A=b"}, "sh", "-c", "echo $A; pwd"); err != nil || out != "b\n"+s.repo+"\n" {
		t.Errorf("printed %q, %v", out, err)
	}
	_, err := s.tool(t.Context(), nil, "sh", "-c", "echo why >&2; exit 2")
	if err == nil || !strings.Contains(err.Error(), "exit status 2") || !strings.Contains(err.Error(), "why") {
		t.Errorf("got %v", err)
	}
}
