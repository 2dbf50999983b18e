package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain makes the test binary play other programs.
func TestMain(m *testing.M) {
	switch os.Getenv("FAKE") {
	case "":
		os.Exit(m.Run())
	case "polite": // ends on SIGTERM
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		fmt.Println("up", os.Getpid())
		<-stop
	case "stubborn": // does not
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("up", os.Getpid())
		for { // select {} ends with "all goroutines are asleep" where nothing is linked that uses C, as it is with -race
			time.Sleep(time.Hour)
		}
	case "broken":
		fmt.Println("cannot")
		os.Exit(3)
	case "parent": // starts a child, prints its number, and dies without a chance to clean up
		cmd := fake("stubborn")
		if err := NewSpawner().Start(cmd); err != nil {
			panic(err)
		}
		fmt.Println(cmd.Process.Pid)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func fake(role string, env ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(append(os.Environ(), "FAKE="+role, "GORACE=atexit_sleep_ms=0"), env...)
	return cmd
}

// startFake starts a program and returns when it is up.
func startFake(t *testing.T, role string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := fake(role, env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func identify(t *testing.T, pid int) Identity {
	t.Helper()
	id, err := Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestStartTime(t *testing.T) {
	const rest = " 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 10 11"
	for _, tc := range []struct {
		claim, stat string
		want        uint64
		err         error
		fails       bool
	}{
		{claim: "TheTwentySecondField", stat: "12 (dev) S" + rest, want: 4711},
		{claim: "NamesMayHoldAnything", stat: "12 (a) S (b) 1 2) R" + rest, want: 4711},
		{claim: "AZombieIsGone", stat: "12 (dev) Z" + rest, err: os.ErrProcessDone, fails: true},
		{claim: "ADeadOneIsGone", stat: "12 (dev) X" + rest, err: os.ErrProcessDone, fails: true},
		{claim: "NoName", stat: "12 dev S" + rest, fails: true},
		{claim: "TooShort", stat: "12 (dev) S 1 1", fails: true},
		{claim: "NoNumber", stat: "12 (dev) S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 x 9", fails: true},
		{claim: "Empty", fails: true},
	} {
		t.Run(tc.claim, func(t *testing.T) {
			got, err := startTime(tc.stat)
			if got != tc.want || (err != nil) != tc.fails || (tc.err != nil && !errors.Is(err, tc.err)) {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
}

func FuzzStartTime(f *testing.F) {
	f.Add("12 (dev) S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 10 11")
	f.Add("1 (a) b) Z 2")
	f.Add(")")
	f.Fuzz(func(t *testing.T, stat string) {
		if _, err := startTime(stat); err == nil && !strings.Contains(stat, ")") {
			t.Error("understood a line without a program name")
		}
	})
}

func TestIdentity(t *testing.T) {
	cmd := startFake(t, "polite")
	id := identify(t, cmd.Process.Pid)
	if !id.Alive() {
		t.Fatal("a running process counts as gone")
	}
	if self, err := os.Executable(); err != nil || id.Exe != self {
		t.Errorf("its program is %q, want %q (%v)", id.Exe, self, err)
	}
	for claim, change := range map[string]func(*Identity){
		"AnotherStartTime": func(id *Identity) { id.Started++ },
		"AnotherBoot":      func(id *Identity) { id.Boot = "x" },
		"AnotherProgram":   func(id *Identity) { id.Exe = "/bin/true" },
	} {
		t.Run(claim+"IsAnotherProcess", func(t *testing.T) {
			other := id
			change(&other)
			if other.Alive() {
				t.Error("taken for the same process")
			}
			if err := other.End(t.Context(), 0); err != nil {
				t.Error(err)
			}
			if !id.Alive() {
				t.Error("a process that only has the same number was ended")
			}
		})
	}
}

func TestEnd(t *testing.T) {
	for claim, tc := range map[string]struct {
		role   string
		signal syscall.Signal
	}{
		"ThePoliteStopByThemselves": {role: "polite"},
		"TheStubbornAreKilled":      {role: "stubborn", signal: syscall.SIGKILL},
	} {
		t.Run(claim, func(t *testing.T) {
			cmd := startFake(t, tc.role)
			id := identify(t, cmd.Process.Pid)
			grace := testTimeout
			if tc.signal != 0 {
				grace = 0
			}
			if err := id.End(t.Context(), grace); err != nil {
				t.Fatal(err)
			}
			if id.Alive() {
				t.Error("End returned before the end")
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); tc.signal != 0 && got != tc.signal {
				t.Errorf("ended by %v", got)
			}
		})
	}
	t.Run("WaitingEndsWithTheContext", func(t *testing.T) {
		id := identify(t, startFake(t, "stubborn").Process.Pid)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := id.End(ctx, testTimeout); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestKillMarked(t *testing.T) {
	dir := t.TempDir()
	ours := startFake(t, "stubborn", "MARK="+dir)
	longer := startFake(t, "stubborn", "MARK="+dir+"2")
	unmarked := startFake(t, "stubborn")
	n, err := KillMarked(t.Context(), "MARK="+dir)
	if err != nil || n != 1 {
		t.Fatalf("killed %d, %v; want 1", n, err)
	}
	if _, err := Identify(ours.Process.Pid); err == nil {
		t.Error("a marked process is still there")
	}
	for claim, cmd := range map[string]*exec.Cmd{"another instance's": longer, "an unmarked": unmarked} {
		if _, err := Identify(cmd.Process.Pid); err != nil {
			t.Errorf("%s process was killed", claim)
		}
	}
	if n, err := KillMarked(t.Context(), "MARK="+dir); n != 0 || err != nil {
		t.Errorf("the second time: %d, %v", n, err)
	}
}

func TestKillMarkedSparesTheCaller(t *testing.T) {
	data, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(data), "\x00")
	found, err := marked(first)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range found {
		if id.PID == os.Getpid() {
			t.Error("it would kill itself")
		}
	}
}

func TestChildrenDieWithAParentThatIsKilled(t *testing.T) {
	cmd := fake("parent")
	out, err := cmd.Output() // returns when no process has the pipe open: the parent, and the child, which inherits none
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("the parent ended with %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	if id, err := Identify(pid); err == nil {
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		if err := id.wait(ctx); err != nil {
			t.Error("the child has outlived its parent")
		}
	}
}

func TestChildrenHaveAProcessGroupOfTheirOwn(t *testing.T) {
	for claim, attr := range map[string]*syscall.SysProcAttr{"Plain": nil, "WithASession": {Setsid: true}} {
		t.Run(claim, func(t *testing.T) {
			cmd := fake("stubborn")
			cmd.SysProcAttr = attr
			if err := NewSpawner().Start(cmd); err != nil {
				t.Fatal(err)
			}
			group, err := syscall.Getpgid(cmd.Process.Pid)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if err != nil || group != cmd.Process.Pid {
				t.Errorf("its group is %d, %v", group, err)
			}
		})
	}
}

func TestLock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	held, err := Lock(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(file); !errors.Is(err, ErrLocked) {
		t.Errorf("the second holder got %v", err)
	}
	// A child that lives on must not keep it.
	startFake(t, "stubborn")
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(file)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	again.Close()
	if _, err := Lock(filepath.Join(file, "x")); err == nil {
		t.Error("locked a file that cannot be")
	}
}
