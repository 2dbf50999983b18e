package plane

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLogs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.log")
	if cut, err := truncateOver(file, 3); cut || err != nil {
		t.Errorf("a missing log: %v, %v", cut, err)
	}
	if got := lastLines(file); got != "" {
		t.Errorf("a missing log ends with %q", got)
	}
	for claim, tc := range map[string]struct {
		content, last string
		cut           bool
	}{
		"EmptyHasNoEnd":     {"", "", false},
		"ShortIsShownWhole": {"a\nb\n", ":\n    a\n    b", true},
		"LongIsShownInPart": {strings.Repeat("x", 5000) + "\n1\n2\n3\n4\n5\n", ":\n    1\n    2\n    3\n    4\n    5", true},
	} {
		t.Run(claim, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := lastLines(file); got != tc.last {
				t.Errorf("ends with %q", got)
			}
			if cut, err := truncateOver(file, 3); cut != tc.cut || err != nil {
				t.Errorf("cut: %v, %v", cut, err)
			}
		})
	}
}

func TestRotateKeepsOneOldLog(t *testing.T) {
	l := testLayout(t)
	for _, content := range []string{"first", "second"} {
		if err := os.WriteFile(l.log("etcd"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := rotateLogs(l); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(l.path("log"))
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v", entries, err)
	}
	if data, err := os.ReadFile(l.log("etcd") + ".1"); err != nil || string(data) != "second" {
		t.Errorf("kept %q, %v", data, err)
	}
}

func TestWait(t *testing.T) {
	t.Run("AsksUntilItIsSo", func(t *testing.T) {
		asked := 0
		err := wait(t.Context(), time.Microsecond, func(context.Context) error {
			if asked++; asked < 3 {
				return errors.New("not yet")
			}
			return nil
		})
		if err != nil || asked != 3 {
			t.Errorf("asked %d times, %v", asked, err)
		}
	})
	t.Run("EndsWithTheReasonAndTheLastAnswer", func(t *testing.T) {
		why, answer := errors.New("too late"), errors.New("not yet")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		if err := wait(ctx, time.Hour, func(context.Context) error { return answer }); !errors.Is(err, why) || !errors.Is(err, answer) {
			t.Errorf("got %v", err)
		}
	})
}
