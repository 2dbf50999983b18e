package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// testTimeout bounds what must happen; no test waits for it to pass.
const testTimeout = time.Minute

// diary collects what a supervisor says.
type diary struct {
	mu    sync.Mutex
	lines []string
	said  chan string
}

func (d *diary) logf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	d.mu.Lock()
	d.lines = append(d.lines, line)
	d.mu.Unlock()
	d.said <- line
}

func newSupervisor() (*Supervisor, *diary) {
	d := &diary{said: make(chan string, 100)}
	return &Supervisor{
		Spawner: NewSpawner(), Logf: d.logf,
		Backoff: time.Millisecond, MaxBackoff: 4 * time.Millisecond, Tries: 3, Poll: time.Millisecond, Grace: testTimeout,
	}, d
}

// starts are the commands of one component, in order.
type starts struct {
	mu   sync.Mutex
	cmds []*exec.Cmd
}

func (s *starts) add(cmd *exec.Cmd) *exec.Cmd {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmds = append(s.cmds, cmd)
	return cmd
}

func (s *starts) all() []*exec.Cmd {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.cmds)
}

// component plays a role; it is ready when it has said so in its log.
func component(t *testing.T, name, role string) (Component, *starts) {
	t.Helper()
	s := &starts{}
	log := filepath.Join(t.TempDir(), name+".log")
	return Component{
		Name:    name,
		Command: func() *exec.Cmd { return s.add(fake(role)) },
		Log:     log,
		Ready: func(context.Context) error {
			data, err := os.ReadFile(log)
			if err == nil && !strings.Contains(string(data), "up") {
				err = errors.New("not up yet")
			}
			return err
		},
	}, s
}

func TestSupervisorStopsInReverseOrder(t *testing.T) {
	s, _ := newSupervisor()
	var started []*starts
	for _, name := range []string{"a", "b", "c"} {
		c, starts := component(t, name, "polite")
		if err := s.Start(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		started = append(started, starts)
	}
	s.Stop()
	for i, starts := range started {
		if n := len(starts.all()); n != 1 {
			t.Errorf("component %d was started %d times", i, n)
		}
		if state := starts.all()[0].ProcessState; state == nil || !state.Success() {
			t.Errorf("component %d ended with %v", i, state)
		}
	}
	s.Stop() // nothing is left to do
}

func TestSupervisorStartsTheDeadAgain(t *testing.T) {
	s, d := newSupervisor()
	c, lives := component(t, "mortal", "polite")
	if err := s.Start(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var pid int
		for pid == 0 { // until it has said so in its log
			data, err := os.ReadFile(c.Log)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = fmt.Sscanf(string(data), "up %d\n", &pid)
		}
		if err := os.Truncate(c.Log, 0); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if line := <-d.said; !strings.HasPrefix(line, "mortal has died (signal: killed), starting it again in ") {
			t.Errorf("said %q", line)
		}
	}
	s.Stop()
	if n := len(lives.all()); n < 3 { // Stop may come before the last start
		t.Errorf("started %d times", n)
	}
}

func TestSupervisorGivesUpOnWhatNeverStarts(t *testing.T) {
	for claim, tc := range map[string]struct {
		change func(*Component)
		want   string
	}{
		"ItDies":          {func(*Component) {}, "bad does not start: exit status 3"},
		"ItIsMissing":     {func(c *Component) { c.Command = func() *exec.Cmd { return exec.Command("/nowhere/at/all") } }, "no such file"},
		"ItsLogIsMissing": {func(c *Component) { c.Log = filepath.Join(c.Log, "x", "y") }, "open its log"},
	} {
		t.Run(claim, func(t *testing.T) {
			s, d := newSupervisor()
			c, _ := component(t, "bad", "broken")
			c.Ready = func(context.Context) error { return errors.New("not ready") }
			tc.change(&c)
			err := s.Start(t.Context(), c)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
			s.Stop()
			if len(d.lines) != s.Tries-1 {
				t.Errorf("said %q, want %d tries", d.lines, s.Tries)
			}
		})
	}
}

func TestSupervisorStartEndsWithTheContext(t *testing.T) {
	s, _ := newSupervisor()
	c, _ := component(t, "slow", "polite")
	why := errors.New("took too long")
	ctx, cancel := context.WithCancelCause(t.Context())
	c.Ready = func(context.Context) error {
		cancel(why)
		return errors.New("still loading")
	}
	err := s.Start(ctx, c)
	if !errors.Is(err, why) || !strings.Contains(err.Error(), "still loading") {
		t.Errorf("got %v", err)
	}
	s.Stop()
}

func TestSupervisorKillsTheStubborn(t *testing.T) {
	s, d := newSupervisor()
	s.Grace = time.Millisecond
	c, starts := component(t, "mule", "stubborn")
	if err := s.Start(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if got := starts.all()[0].ProcessState.String(); got != "signal: killed" {
		t.Errorf("ended with %s", got)
	}
	if len(d.lines) != 1 || !strings.Contains(d.lines[0], "has not stopped in") {
		t.Errorf("said %q", d.lines)
	}
}
