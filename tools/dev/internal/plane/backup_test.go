package plane

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// etcd starts with restored data where there is any, and what it had stays beside it until the next restore.
func TestRestoredDataTakeThePlaceOfThoseOfEtcd(t *testing.T) {
	l := testLayout(t)
	write := func(dir, text string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/data", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	has := func(dir, want string) {
		t.Helper()
		if text, err := os.ReadFile(dir + "/data"); err != nil || string(text) != want {
			t.Errorf("%s has %q, %v, want %q", dir, text, err, want)
		}
	}
	write(l.etcd(), "first")
	if err := l.adoptRestored(); err != nil {
		t.Fatal(err)
	}
	has(l.etcd(), "first")
	for i, want := range []string{"first", "second"} {
		next := []string{"second", "third"}[i]
		write(l.restored(), next)
		if err := l.adoptRestored(); err != nil {
			t.Fatal(err)
		}
		has(l.etcd(), next)
		has(l.replaced(), want)
	}
}

// What etcd's tool says of a broken file is told in one sentence, without its log.
func TestABrokenSnapshotIsToldInOneSentence(t *testing.T) {
	for said, why := range map[string]string{
		"exit status 1: 2026-01-01T00:00:00Z\tinfo\trestoring snapshot\t{\"path\": \"x\"}\nError: seek x: invalid argument\n": "(seek x: invalid argument)",
		"exit status 2: panic: assertion failed: Page 359\n\ngoroutine 1 [running]:\n":                                        "exit status 2",
		"exec: no such file": "(exec: no such file)",
	} {
		got := unreadable("backup.db", errors.New(said)).Error()
		if !strings.HasPrefix(got, "restore backup.db: etcd can't read it as a snapshot ") || !strings.Contains(got, why) || strings.Contains(got, "restoring") ||
			strings.Contains(got, "goroutine") || strings.Contains(got, "\n") {
			t.Errorf("%q is told as %q", said, got)
		}
	}
}
