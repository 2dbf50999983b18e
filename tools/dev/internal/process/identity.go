package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pollEvery is how often a process that is not our child is checked while waiting for its end.
const pollEvery = 20 * time.Millisecond

// Identity identifies one process: numbers are reused, but not together with the time of their start.
type Identity struct {
	// PID is the process number.
	PID int `json:"pid"`
	// Started is the start time in clock ticks since boot (proc(5), stat field 22).
	Started uint64 `json:"started"`
	// Boot identifies one run of the machine (random(4), boot_id).
	Boot string `json:"boot"`
	// Exe is the program's file.
	Exe string `json:"exe"`
}

// Identify reads the identity of the process that has pid now. A process that has ended but is not yet reaped counts as gone.
func Identify(pid int) (Identity, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Identity{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	started, err := startTime(string(stat))
	if err != nil {
		return Identity{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	exe, err := os.Readlink(filepath.Join(dir, "exe"))
	if err != nil {
		return Identity{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Identity{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return Identity{
		PID:     pid,
		Started: started,
		Boot:    strings.TrimSpace(string(boot)),
		Exe:     strings.TrimSuffix(exe, " (deleted)"), // as after a rebuild of the program
	}, nil
}

// startTime picks the start time out of /proc/PID/stat. The second field is the program's name in parentheses, which may
// hold anything, so counting begins after the last closing one.
func startTime(stat string) (uint64, error) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, errors.New("its stat line has no program name")
	}
	fields := strings.Fields(stat[end+1:]) // the first is field 3, the state
	if len(fields) < 20 {
		return 0, fmt.Errorf("its stat line has %d fields after the program name, not 20", len(fields))
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, os.ErrProcessDone
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// Alive reports whether this very process still runs.
func (id Identity) Alive() bool {
	now, err := Identify(id.PID)
	return err == nil && now == id
}

// End asks the process to stop, kills it if it has not stopped after grace, and returns when it is gone. A process that
// only has the same number is not touched.
func (id Identity) End(ctx context.Context, grace time.Duration) error {
	// A handle, not a number: the process that it refers to cannot change between the check and the signal.
	handle, err := os.FindProcess(id.PID)
	if err != nil || !id.Alive() {
		return nil
	}
	defer func() { _ = handle.Release() }()
	if err := send(handle, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop process %d: %w", id.PID, err)
	}
	polite, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if id.wait(polite) == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("wait for process %d to stop: %w", id.PID, err)
	}
	if err := send(handle, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill process %d: %w", id.PID, err)
	}
	if err := id.wait(ctx); err != nil {
		return fmt.Errorf("wait for process %d to die: %w", id.PID, err)
	}
	return nil
}

func send(handle *os.Process, sig os.Signal) error {
	if err := handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (id Identity) wait(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for id.Alive() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}
