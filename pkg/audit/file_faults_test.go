package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// What this test's program does when it is started as another process: its environment names the fault.
const (
	faultVariable = "AUDIT_FILE_FAULT"
	faultKilled   = "killed"
	faultFull     = "full"
)

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(faultVariable) {
	case faultKilled:
		err = writeUntilKilled(os.Args[1])
	case faultFull:
		err = fillTheDisk(os.Args[1])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// anotherProcess is this test's program as another process.
func anotherProcess(t *testing.T, fault, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], path)
	cmd.Env = append(os.Environ(), faultVariable+"="+fault)
	cmd.Stderr = os.Stderr
	return cmd
}

// opened opens a file for events, and writes them until stop.
func opened(path string) (f *File, stop func(), err error) {
	m, err := NewMetrics(nil)
	if err != nil {
		return nil, nil, err
	}
	if f, err = NewFile(FileOptions{Path: path, MaxSize: 100, Metrics: m, Now: time.Now}); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { f.Run(ctx) })
	return f, func() { cancel(); run.Wait() }, nil
}

// writeUntilKilled writes events, and prints the number of each one after it is written.
func writeUntilKilled(path string) error {
	f, _, err := opened(path)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		if err := f.Submit(event(numbered(i))).Wait(context.Background()); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

// numbered is the path of the event with a number; they have many lengths.
func numbered(i int) string { return "/" + strconv.Itoa(i) + "/" + strings.Repeat("x", i%5000) }

// A process that is killed has written each event that a request has waited for (mode blocking), and the next one begins on a line of its own.
func TestNothingThatWasAnsweredIsLostByAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	answered := map[string]int{}
	for range 3 {
		cmd := anotherProcess(t, faultKilled, path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			number, err := strconv.Atoi(lines.Text())
			if err != nil {
				t.Fatal(err)
			}
			answered[numbered(number)]++
			if number == 300 {
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait() // killed
	}
	if answered[numbered(300)] != 3 {
		t.Fatalf("%d processes answered for event 300, want 3", answered[numbered(300)])
	}
	seen := eventsOf(t, path)
	for path, times := range answered {
		if seen[path] < times {
			t.Errorf("%.20s is there %d times, and %d processes answered for it", path, seen[path], times)
		}
	}

	part := filepath.Join(t.TempDir(), "audit.log") // as where the process was killed within a write
	if err := os.WriteFile(part, []byte(`{"kind":"Event","verb":"ge`), 0o600); err != nil {
		t.Fatal(err)
	}
	f, stop, err := opened(part)
	if err != nil {
		t.Fatal(err)
	}
	f.Record(event("/next"))
	stop()
	if seen := eventsOf(t, part); seen["/next"] != 1 || seen["broken"] != 1 {
		t.Errorf("got %v, want the broken line and the event", seen)
	}
}

// eventsOf counts the events of a file by their path, and the lines that are no event as broken.
func eventsOf(t *testing.T, path string) map[string]int {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for line := range bytes.Lines(raw) {
		var e auditv1.Event
		if json.Unmarshal(line, &e) != nil {
			e.RequestURI = "broken"
		}
		seen[e.RequestURI]++
	}
	return seen
}

// fillTheDisk writes events on a disk of 64 KiB until that is full, frees it, and fails unless all events are there then, each on a line
// of its own.
func fillTheDisk(folder string) error {
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=64k"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	other, path := filepath.Join(folder, "other"), filepath.Join(folder, "audit.log")
	if err := os.WriteFile(other, make([]byte, 48<<10), 0o600); err != nil {
		return err
	}
	f, stop, err := opened(path)
	if err != nil {
		return err
	}
	const events, size = 40, 500
	for i := range events {
		f.Record(event("/" + strconv.Itoa(i) + "/" + strings.Repeat("x", size)))
	}
	for end := time.Now().Add(time.Minute); f.Fault() == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("the disk did not become full")
		}
	}
	if err := f.Fault(); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the fault is %w, want a full disk", err)
	}
	if err := os.Remove(other); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); f.Fault() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("the file is not written after the disk was freed")
		}
	}
	stop()
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	whole := map[string]bool{}
	for line := range bytes.Lines(raw) {
		var e auditv1.Event
		if json.Unmarshal(line, &e) == nil {
			whole[e.RequestURI] = true
		}
	}
	if len(whole) != events {
		return fmt.Errorf("%d whole events are in the file, want %d", len(whole), events)
	}
	return nil
}

// O39, on a disk that really is full: what waited is written when there is room again.
func TestAFullDiskLosesNoEvent(t *testing.T) {
	cmd := anotherProcess(t, faultFull, t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	err := cmd.Run()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("DID NOT RUN: this machine lets nobody mount a disk of their own (user namespaces): %v", err)
	}
	if err != nil {
		t.Error(err)
	}
}
